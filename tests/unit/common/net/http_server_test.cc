// What well-behaved clients get, over real sockets.

#include "common/net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/net/http_routes.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

TEST(HttpServerTest, AnswersSeveralRequestsOfOneConnection) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  for (const std::string path : {"/one", "/two", "/three"}) {
    client.Send(Get(path + "?a=%20b"));
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "GET " + path + "?a=%20b|");
    EXPECT_EQ(answer->headers.at("content-type"), "text/plain");
    EXPECT_EQ(answer->headers.count("connection"), 0);
    EXPECT_THAT(answer->headers.at("date"), HasSubstr(" GMT"));
  }
}

TEST(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(Get("/1") + "POST /2 HTTP/1.1\r\nHost: localhost\r\n" +
              "Content-Length: 3\r\n\r\nabc" + Get("/3"));
  const HttpCall first = server.Await();
  ASSERT_NE(first.reply, nullptr);
  EXPECT_EQ(first.request.path, "/1");
  first.reply->Send(200, {}, "first");
  const HttpCall second = server.Await();
  ASSERT_NE(second.reply, nullptr);
  EXPECT_EQ(second.request.body, "abc");
  second.reply->Begin(200, {});
  EXPECT_TRUE(second.reply->Write("sec"));
  EXPECT_TRUE(second.reply->Write("ond"));
  second.reply->End();
  const HttpCall third = server.Await();
  ASSERT_NE(third.reply, nullptr);
  third.reply->Send(200, {}, "third");
  for (const std::string body : {"first", "second", "third"}) {
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->body, body);
  }
}

TEST(HttpServerTest, AnswersEveryPipelinedRequestOfAClientThatEndsSending) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send(Get("/1") + Get("/2") + Get("/3"));
  client.EndSending();
  const std::string all = client.ReadToEnd();
  EXPECT_THAT(all, HasSubstr("GET /1?|"));
  EXPECT_THAT(all, HasSubstr("GET /2?|"));
  EXPECT_THAT(all, HasSubstr("GET /3?|"));
}

TEST(HttpServerTest, SendsToHeadWhatGetHasWithoutTheBody) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n" + Get("/y"));
  const auto head = client.ReadAnswer(/*is_head=*/true);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->headers.at("content-length"), "9");  // "HEAD /x?|"
  const auto next = client.ReadAnswer();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->body, "GET /y?|");
}

TEST(HttpServerTest, TellsAClientThatWaitsToGoOn) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send(
      "POST /x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hello");
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, "POST /x?|hello");
}

TEST(HttpServerTest, JoinsTheChunksOfABody) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send(
      "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "\r\n5;a=b\r\nhello\r\n");
  client.Send("6\r\n, you!\r\n0\r\nTrailer: 1\r\n\r\n" + Get("/y"));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, "POST /x?|hello, you!");
  EXPECT_EQ(client.ReadAnswer()->body, "GET /y?|");
}

TEST(HttpServerTest, ClosesAfterTheAnswerWhenAskedTo) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send(Get("/x", "Connection: close\r\n"));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->headers.at("connection"), "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST(HttpServerTest, AnswersHttp10AndCloses) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send("GET /x HTTP/1.0\r\n\r\n");
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  call.reply->Begin(200, {});
  call.reply->Write("plain");
  call.reply->Write(" text");
  call.reply->End();
  const std::string all = client.ReadToEnd();
  EXPECT_THAT(all, ::testing::EndsWith("\r\n\r\nplain text"));
  EXPECT_THAT(all, HasSubstr("Connection: close\r\n"));
}

TEST(HttpServerTest, SendsNoBodyWhereTheStatusHasNone) {
  HttpTestServer server(
      {}, [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
        reply->Send(204, {{"x", "y"}}, "dropped");
      });
  HttpSocket client(server.port());
  client.Send(Get("/x", "Connection: close\r\n"));
  const std::string all = client.ReadToEnd();
  EXPECT_THAT(all, ::testing::EndsWith("x: y\r\n\r\n"));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("ontent-")));
}

TEST(HttpServerTest, HandsTargetsHeadersAndBodiesOnAsTheyWereSent) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(
      "PUT http://LocalHost:1/a/../b%2f?q=1&q=2 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "X-Two: a\r\nx-two:  b \r\nContent-Length: 2\r\n\r\n\r\n");
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  EXPECT_EQ(call.request.method, "PUT");
  EXPECT_EQ(call.request.path, "/a/../b%2f");
  EXPECT_EQ(call.request.query, "q=1&q=2");
  EXPECT_EQ(call.request.body, "\r\n");
  const HttpHeaders expected = {{"host", "127.0.0.1"},
                                {"x-two", "a"},
                                {"x-two", "b"},
                                {"content-length", "2"}};
  EXPECT_EQ(call.request.headers, expected);
  EXPECT_EQ(*call.request.Header("x-two"), "a");
  EXPECT_EQ(call.request.Header("x-three"), nullptr);
}

TEST(HttpServerTest, ListensOnIpV6) {
  HttpServerOptions options;
  options.listen = "[::1]:0";
  const auto server = HttpServer::Start(options, Echo);
  if (absl::IsUnavailable(server.status())) GTEST_SKIP() << server.status();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), ::testing::StartsWith("[::1]:"));
}

TEST(HttpServerTest, RefusesAPortInUse) {
  HttpTestServer server({}, Echo);
  HttpServerOptions options;
  options.listen = server.server().address();
  const auto second = HttpServer::Start(options, Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("Address already in use"));
}

TEST(HttpServerTest, RefusesTheNetworkWithoutTlsAndKeys) {
  HttpServerOptions options;
  options.listen = "0.0.0.0:0";
  const absl::Status neither = CheckHttpServerOptions(options);
  EXPECT_EQ(neither.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(neither.message(), HasSubstr("--http-tls-cert"));
  EXPECT_THAT(neither.message(), HasSubstr("--api-key-file"));
  options.is_authenticated = true;
  const absl::Status plain = HttpServer::Start(options, Echo).status();
  EXPECT_THAT(plain.message(), HasSubstr("--http-tls-cert"));
  EXPECT_THAT(plain.message(), ::testing::Not(HasSubstr("--api-key-file")));
}

TEST(HttpServerTest, RefusesLimitsThatLeaveNothing) {
  HttpServerOptions options;
  options.listen = "127.0.0.1:0";
  EXPECT_TRUE(CheckHttpServerOptions(options).ok());
  HttpServerOptions no_threads = options;
  no_threads.num_threads = 0;
  EXPECT_FALSE(CheckHttpServerOptions(no_threads).ok());
  HttpServerOptions no_time = options;
  no_time.idle_timeout = absl::ZeroDuration();
  EXPECT_FALSE(CheckHttpServerOptions(no_time).ok());
  HttpServerOptions no_port = options;
  no_port.listen = "127.0.0.1";
  EXPECT_FALSE(CheckHttpServerOptions(no_port).ok());
}

TEST(HttpServerTest, EndsAtOnceAfterItsStart) {
  for (int i = 0; i < 20; ++i) HttpTestServer({}, Echo).End();
}

}  // namespace
}  // namespace deltafin::testing
