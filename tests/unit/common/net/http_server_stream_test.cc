// Streams, clients that go, and the server's end, over real sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/base/check.h"
#include "common/net/http_server.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

// A server with a request under way, which the test answers.
struct OpenRequest {
  explicit OpenRequest(const HttpServerOptions& options = {},
                       int receive_buffer_bytes = 0)
      : server(options), client(server.port(), receive_buffer_bytes) {
    client.Send(Get("/x"));
    call = server.Await();
    CHECK(call.reply != nullptr, "a request that was sent comes");
    call.reply->OnGone([this] { gone.Raise(); });
  }

  HttpReply& reply() { return *call.reply; }

  Signal gone;  // the client
  HttpTestServer server;
  HttpSocket client;
  HttpCall call;
};

TEST(HttpServerStreamTest, SendsEachPartAtOnce) {
  OpenRequest open;
  open.reply().Begin(200, {{"content-type", "text/event-stream"}});
  EXPECT_THAT(open.client.ReadUntil("\r\n\r\n"),
              HasSubstr("content-type: text/event-stream\r\n"));
  for (const std::string part : {"one", "two"}) {
    EXPECT_TRUE(open.reply().Write(part));
    EXPECT_EQ(open.client.ReadUntil(part + "\r\n"), "3\r\n" + part + "\r\n");
  }
  EXPECT_TRUE(open.reply().Write(""));  // ends nothing
  open.reply().End();
  EXPECT_EQ(open.client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_FALSE(open.reply().Write("late"));
  open.client.Send(Get("/y"));
  EXPECT_EQ(open.server.Await().request.path, "/y");
}

TEST(HttpServerStreamTest, NoticesAClientThatGoesWhileNothingIsWritten) {
  for (const bool resets : {false, true}) {
    OpenRequest open;
    open.reply().Begin(200, {});
    open.client.ReadUntil("\r\n\r\n");
    EXPECT_EQ(open.gone.count(), 0);
    if (resets) {
      open.client.Reset();
    } else {
      open.client.Close();
    }
    EXPECT_TRUE(open.gone.Await());
    EXPECT_FALSE(open.reply().Write("x"));
    open.reply().End();
    EXPECT_EQ(open.gone.count(), 1);
    // One that is set too late is called at once.
    open.reply().OnGone([&open] { open.gone.Raise(); });
    EXPECT_EQ(open.gone.count(), 2);
  }
}

TEST(HttpServerStreamTest, NoticesAClientThatGoesBeforeItsAnswer) {
  OpenRequest open;
  open.client.EndSending();
  EXPECT_TRUE(open.gone.Await());
  open.reply().Send(200, {}, "late");
  EXPECT_EQ(open.client.ReadToEnd(), "");
}

TEST(HttpServerStreamTest, CallsNobodyWhenTheAnswerWasGiven) {
  OpenRequest open;
  auto held = std::make_shared<int>(1);
  open.reply().OnGone([&open, held] { open.gone.Raise(); });
  EXPECT_EQ(held.use_count(), 2);
  open.reply().Send(200, {}, "");
  EXPECT_EQ(held.use_count(), 1);  // dropped with the end
  open.client.ReadAnswer();
  open.client.Close();
  open.server.End();
  EXPECT_EQ(open.gone.count(), 0);
}

TEST(HttpServerStreamTest, Sends500ForADroppedReply) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(Get("/x"));
  server.Await();
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 500);
  EXPECT_THAT(answer->body, HasSubstr("\"type\":\"server_error\""));
  client.Send(Get("/y"));  // the connection goes on
  EXPECT_EQ(server.Await().request.path, "/y");
}

TEST(HttpServerStreamTest, CutsAStreamWhoseReplyIsDropped) {
  OpenRequest open;
  open.reply().Begin(200, {});
  open.reply().Write("half");
  open.call.reply.reset();
  const std::string all = open.client.ReadToEnd();
  EXPECT_THAT(all, ::testing::EndsWith("4\r\nhalf\r\n"));  // no end
}

TEST(HttpServerStreamTest, Sends500InsteadOfAHeaderThatWouldSplitTheAnswer) {
  const HttpHeaders kBad[] = {{{"x", "a\r\nInjected: b"}},
                              {{"x y", "a"}},
                              {{"", "a"}},
                              {{"Content-Length", "5"}},
                              {{"x", std::string("a\0b", 3)}}};
  for (const HttpHeaders& headers : kBad) {
    HttpTestServer server;
    HttpSocket client(server.port());
    for (const bool streams : {false, true}) {
      client.Send(Get("/x"));
      const HttpCall call = server.Await();
      ASSERT_NE(call.reply, nullptr);
      if (streams) {
        call.reply->Begin(200, headers);
      } else {
        call.reply->Send(200, headers, "secret");
      }
      const auto answer = client.ReadAnswer();
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->status, 500);
      EXPECT_THAT(answer->body, HasSubstr("internal_error"));
      EXPECT_EQ(answer->headers.count("injected"), 0);
    }
  }
}

TEST(HttpServerStreamTest, BoundsWhatAClientLeavesUnread) {
  HttpServerOptions options;
  options.max_unread_bytes = size_t{256} << 10;
  OpenRequest open(options, /*receive_buffer_bytes=*/4096);
  open.reply().Begin(200, {});
  // The kernel takes some hundreds of kilobytes, we the bound, then it ends.
  const std::string part(16384, 'x');
  size_t num_written = 0;
  while (open.reply().Write(part)) {
    num_written += part.size();
    ASSERT_LT(num_written, options.max_unread_bytes + (size_t{1} << 20));
  }
  EXPECT_TRUE(open.gone.Await());
  EXPECT_GE(num_written, options.max_unread_bytes - part.size());
}

TEST(HttpServerStreamTest, SendsALongAnswerToASlowReaderWhole) {
  HttpServerOptions options;
  options.max_unread_bytes = 1024;  // not of whole answers
  OpenRequest open(options, /*receive_buffer_bytes=*/16384);
  std::string body(size_t{2} << 20, 'a');
  for (size_t i = 0; i < body.size(); i += 997) body[i] = 'b';
  open.reply().Send(200, {}, body);
  const auto answer = open.client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->body == body);
}

TEST(HttpServerStreamTest, LetsGoOfAClientThatTakesNothing) {
  HttpServerOptions options;
  options.write_timeout = absl::Milliseconds(50);
  options.max_unread_bytes = size_t{20} << 20;
  OpenRequest open(options, /*receive_buffer_bytes=*/4096);
  open.reply().Begin(200, {});
  open.reply().Write(std::string(size_t{16} << 20, 'x'));
  EXPECT_TRUE(open.gone.Await());
}

TEST(HttpServerStreamTest, LetsAStreamEndBeforeItShutsDown) {
  HttpTestServer server;
  HttpSocket client(server.port());
  HttpSocket idle(server.port());
  client.Send(Get("/x"));
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  call.reply->Begin(200, {});
  std::thread ending(
      [&server] { server.server().Shutdown(absl::InfiniteDuration()); });
  idle.AwaitClose();  // it has begun
  EXPECT_TRUE(call.reply->Write("rest"));
  call.reply->End();
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, "rest");
  client.AwaitClose();
  client.Close();
  ending.join();
  EXPECT_FALSE(HttpSocket(server.port()).Send(Get("/y")));
}

TEST(HttpServerStreamTest, CutsStreamsWhenTheDrainIsOver) {
  OpenRequest open;
  open.reply().Begin(200, {});
  open.server.server().Shutdown(absl::ZeroDuration());
  EXPECT_EQ(open.gone.count(), 1);
  EXPECT_FALSE(open.reply().Write("x"));
  open.server.server().Shutdown(absl::ZeroDuration());  // again
  open.server.End();
  // A reply may outlive its server.
  open.reply().Send(200, {}, "x");
  open.reply().End();
}

TEST(HttpServerStreamTest, TakesPartsOfManyStreamsFromManyThreads) {
  constexpr int kStreams = 16;
  constexpr int kParts = 200;
  HttpTestServer server;
  std::vector<std::unique_ptr<HttpSocket>> clients;
  std::vector<std::thread> writers;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<HttpSocket>(server.port()));
    clients.back()->Send(Get("/" + std::to_string(i)));
    const HttpCall call = server.Await();
    ASSERT_NE(call.reply, nullptr);
    writers.emplace_back([call] {
      call.reply->Begin(200, {});
      for (int part = 0; part < kParts; ++part) {
        call.reply->Write(call.request.path + "," + std::to_string(part) + ";");
      }
      call.reply->End();
    });
  }
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int part = 0; part < kParts; ++part) {
      expected += "/" + std::to_string(i) + "," + std::to_string(part) + ";";
    }
    const auto answer = clients[i]->ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->body, expected);
  }
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace deltafin::testing
