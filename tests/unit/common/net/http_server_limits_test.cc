// What slow, greedy and hostile clients get, over real sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "common/net/http_server.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

// The answer to `bytes` on a connection of its own, which must end with it, and
// the JSON that it holds.
void ExpectRefusal(int port, std::string_view bytes, int status,
                   const std::string& code) {
  HttpSocket client(port);
  client.Send(bytes);
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value()) << code;
  EXPECT_EQ(answer->status, status) << bytes.substr(0, 200);
  EXPECT_EQ(answer->headers.at("connection"), "close");
  EXPECT_EQ(answer->headers.at("content-type"), "application/json");
  const auto body = nlohmann::json::parse(answer->body, nullptr, false);
  ASSERT_TRUE(body.is_object()) << answer->body;
  const auto& error = body["error"];
  EXPECT_EQ(error["code"], code) << error;
  EXPECT_FALSE(error["message"].get<std::string>().empty());
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_EQ(error["type"],
            status >= 500 ? "server_error" : "invalid_request_error");
  client.AwaitClose();
}

void ExpectServes(int port) {
  HttpSocket client(port);
  client.Send(Get("/alive"));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, "GET /alive?|");
}

TEST(HttpServerLimitsTest, RefusesWhatTwoProgramsCouldReadDifferently) {
  HttpTestServer server({}, Echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  const std::string kBad[] = {
      post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
      post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      post + "Content-Length: 5, 5\r\n\r\nhello",
      post + "Content-Length: +5\r\n\r\nhello",
      post + "Content-Length: 0x5\r\n\r\nhello",
      post + "Content-Length: -1\r\n\r\n",
      post + "Content-Length: 99999999999999999999\r\n\r\n",
      post + "Content-Length:\r\n\r\n",
      post + "Content-Length : 5\r\n\r\nhello",
      post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
      post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: identity\r\n\r\n",
      post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld",
      post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
      post + "X: a\r\n b\r\n\r\n",
      post + "X: a\r\n\tb\r\n\r\n",
      post + "X: a\nY: b\r\n\r\n",
      post + "X: a\rY: b\r\n\r\n",
      post + std::string("X: a\0b\r\n\r\n", 10),
      std::string("GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 36),
      post + "X: a\x01\r\n\r\n",
      post + "X y: a\r\n\r\n",
      post + ": a\r\n\r\n",
      post + "no colon\r\n\r\n",
      post + "Host: localhost\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\n\n",
      "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      " GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "G(T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET index.html HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /#a HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "no such thing\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\r\n\r\n",  // TLS
  };
  for (const std::string& bytes : kBad) {
    ExpectRefusal(server.port(), bytes, 400, "bad_request");
  }
  ExpectServes(server.port());
}

TEST(HttpServerLimitsTest, NeverTakesABodyForTheNextRequest) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(
      "POST /1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      Get("/smuggled"));
  EXPECT_EQ(client.ReadAnswer()->status, 400);
  client.AwaitClose();
  HttpSocket next(server.port());
  next.Send(Get("/next"));
  EXPECT_EQ(server.Await().request.path, "/next");
}

TEST(HttpServerLimitsTest, RefusesAnUnknownExpectation) {
  HttpTestServer server({}, Echo);
  ExpectRefusal(server.port(), Get("/", "Expect: miracles\r\n"), 417,
                "unknown_expectation");
}

TEST(HttpServerLimitsTest, BoundsTheRequestLineAndTheHeaders) {
  HttpServerOptions options;
  options.max_header_bytes = 4096;
  HttpTestServer server(options, Echo);
  ExpectRefusal(server.port(), Get("/" + std::string(5000, 'x')), 414,
                "target_too_long");
  ExpectRefusal(server.port(),
                Get("/", "X: " + std::string(5000, 'x') + "\r\n"), 431,
                "headers_too_large");
  std::string bomb = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 100'000; ++i) bomb += "a: b\r\n";
  ExpectRefusal(server.port(), bomb, 431, "headers_too_large");
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "\r\n";
  ExpectRefusal(server.port(), chunked + "5;" + std::string(20'000, 'x'), 431,
                "headers_too_large");
  ExpectRefusal(server.port(), chunked + "0\r\n" + bomb, 431,
                "headers_too_large");
  ExpectServes(server.port());
}

TEST(HttpServerLimitsTest, RefusesALargeBodyBeforeItIsSent) {
  HttpTestServer server({}, Echo);
  for (const char* expect : {"", "Expect: 100-continue\r\n"}) {
    ExpectRefusal(server.port(),
                  std::string("POST / HTTP/1.1\r\nHost: localhost\r\n") +
                      expect + "Content-Length: 134217728\r\n\r\n",
                  413, "body_too_large");
  }
  ExpectServes(server.port());
}

TEST(HttpServerLimitsTest, TellsAClientThatSendsALargeBodyAnyway) {
  HttpTestServer server({}, Echo);
  HttpSocket client(server.port());
  client.Send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 134217728\r\n"
      "\r\n");
  const std::string part(size_t{1} << 20, 'x');
  for (int i = 0; i < 16 && client.Send(part); ++i) {
  }
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 413);
}

TEST(HttpServerLimitsTest, BoundsAChunkedBodyWhileItComes) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  HttpTestServer server(options, Echo);
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "\r\n";
  ExpectRefusal(server.port(), chunked + "3e9\r\n", 413, "body_too_large");
  std::string many = chunked;
  for (int i = 0; i < 1001; ++i) many += "1\r\nx\r\n";
  ExpectRefusal(server.port(), many, 413, "body_too_large");
  HttpSocket client(server.port());
  client.Send(chunked + "3e8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 200);
}

TEST(HttpServerLimitsTest, BoundsTheBodiesOfAllConnections) {
  HttpServerOptions options;
  options.max_total_body_bytes = 10'000;
  HttpTestServer server(options, Echo);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 9000\r\n\r\n";
  {
    HttpSocket first(server.port());
    HttpSocket second(server.port());
    for (HttpSocket* client : {&first, &second}) {
      client->Send(head);
      client->ReadUntil("\r\n\r\n");
      client->Send(std::string(6000, 'x'));
    }
    // Whichever is read later is over the bound.
    pollfd both[] = {{first.fd(), POLLIN, 0}, {second.fd(), POLLIN, 0}};
    ASSERT_GT(poll(both, 2, 60'000), 0);
    HttpSocket& refused = both[0].revents != 0 ? first : second;
    const auto answer = refused.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(answer->headers.at("retry-after"), "1");
  }
  // A client that goes gives back what it took, once that is noticed.
  int status = 503;
  for (int i = 0; i < 10'000 && status == 503; ++i) {
    HttpSocket client(server.port());
    client.Send(head);
    client.ReadUntil("\r\n\r\n");
    client.Send(std::string(9000, 'x'));
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    status = answer->status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServerLimitsTest, EndsRequestsThatComeTooSlowly) {
  HttpServerOptions options;
  options.header_timeout = absl::Milliseconds(50);
  options.body_timeout = absl::Milliseconds(50);
  HttpTestServer server(options, Echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  ExpectRefusal(server.port(), "G", 408, "request_timeout");
  ExpectRefusal(server.port(), post + "X: ", 408, "request_timeout");
  ExpectRefusal(server.port(), post + "Content-Length: 5\r\n\r\nhell", 408,
                "request_timeout");
  ExpectRefusal(server.port(),
                post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 408,
                "request_timeout");
}

// A byte now and then does not help.
TEST(HttpServerLimitsTest, BoundsTheWholeTimeOfAHeader) {
  HttpServerOptions options;
  options.header_timeout = absl::Milliseconds(200);
  HttpTestServer server(options, Echo);
  HttpSocket client(server.port());
  client.Send("GET / HTTP/1.1\r\n");
  int num_lines = 0;
  while (client.Send("X: y\r\n") && num_lines < 10'000'000) {
    ++num_lines;
    pollfd readable = {client.fd(), POLLIN, 0};
    if (poll(&readable, 1, 10) > 0) break;
  }
  EXPECT_EQ(client.ReadAnswer()->status, 408);
}

TEST(HttpServerLimitsTest, ClosesIdleConnectionsWithoutAWord) {
  HttpServerOptions options;
  options.idle_timeout = absl::Milliseconds(50);
  HttpTestServer server(options, Echo);
  HttpSocket silent(server.port());
  EXPECT_EQ(silent.ReadToEnd(), "");
  HttpSocket empty_lines(server.port());
  empty_lines.Send("\r\n\r\n\r\n");
  EXPECT_EQ(empty_lines.ReadToEnd(), "");
  HttpSocket served(server.port());
  served.Send(Get("/x"));
  EXPECT_EQ(served.ReadAnswer()->status, 200);
  EXPECT_EQ(served.ReadToEnd(), "");
}

TEST(HttpServerLimitsTest, KeepsFiveHundredIdleConnectionsAndServesOthers) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2048) GTEST_SKIP() << "too few files may be open";
  HttpTestServer server({}, Echo);
  std::vector<std::unique_ptr<HttpSocket>> idle;
  for (int i = 0; i < 500; ++i) {
    idle.push_back(std::make_unique<HttpSocket>(server.port()));
    // Some have sent nothing, some half a line, some were served.
    if (i % 3 == 1) idle.back()->Send("GET");
    if (i % 3 == 2) {
      idle.back()->Send(Get("/x"));
      EXPECT_EQ(idle.back()->ReadAnswer()->status, 200);
    }
  }
  ExpectServes(server.port());
  for (size_t i = 0; i < idle.size(); ++i) {
    idle[i]->Send(i % 3 == 1 ? Get("/y").substr(3) : Get("/y"));
    const auto answer = idle[i]->ReadAnswer();
    ASSERT_TRUE(answer.has_value()) << i;
    EXPECT_EQ(answer->body, "GET /y?|");
  }
}

TEST(HttpServerLimitsTest, ClosesTheLongestIdleConnectionForANewOne) {
  HttpServerOptions options;
  options.max_connections = 3;
  options.num_threads = 1;  // one thing after the other
  HttpTestServer server(options, Echo);
  HttpSocket first(server.port());
  HttpSocket second(server.port());
  HttpSocket third(server.port());
  for (HttpSocket* client : {&first, &second, &third, &first}) {
    client->Send(Get("/x"));
    EXPECT_EQ(client->ReadAnswer()->status, 200);
  }
  ExpectServes(server.port());
  second.AwaitClose();
  first.Send(Get("/y"));
  EXPECT_EQ(first.ReadAnswer()->body, "GET /y?|");
}

TEST(HttpServerLimitsTest, ServesOthersWhileSlowOnesHoldAllItsConnections) {
  HttpServerOptions options;
  options.max_connections = 4;
  options.num_threads = 1;
  HttpTestServer server(options, Echo);
  std::vector<std::unique_ptr<HttpSocket>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<HttpSocket>(server.port()));
    slow.back()->Send("GET / HTTP/1.1\r\nHost: local");
    ExpectServes(server.port());
  }
  slow.front()->AwaitClose();
}

TEST(HttpServerLimitsTest, RefusesMoreConnectionsThanItsLimitWhenAllAreBusy) {
  HttpServerOptions options;
  options.max_connections = 2;
  options.num_threads = 1;  // one thing after the other
  HttpTestServer server(options);
  HttpSocket first(server.port());
  HttpSocket second(server.port());
  first.Send(Get("/1"));
  const HttpCall first_call = server.Await();
  second.Send(Get("/2"));
  const HttpCall second_call = server.Await();
  ASSERT_NE(second_call.reply, nullptr);
  ExpectRefusal(server.port(), Get("/3"), 503, "too_many_connections");
  first_call.reply->Send(200, {}, "1");
  EXPECT_EQ(first.ReadAnswer()->body, "1");
  HttpSocket fourth(server.port());
  fourth.Send(Get("/4"));
  EXPECT_EQ(server.Await().request.path, "/4");
  first.AwaitClose();
}

TEST(HttpServerLimitsTest, AnswersForItsOwnHostsOnly) {
  HttpServerOptions options;
  options.allowed_hosts = {"Box.lan"};
  HttpTestServer server(options, Echo);
  const auto get = [](const std::string& host) {
    return "GET /x HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  };
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:80", "[::1]",
        "[::1]:80", "localhost.", "box.lan", "BOX.LAN.:99"}) {
    HttpSocket client(server.port());
    client.Send(get(host));
    EXPECT_EQ(client.ReadAnswer()->status, 200) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example", "evil.example:80", "10.0.0.1",
        "0.0.0.0", "[::2]", "xbox.lan", "", "localhost:x", "a b",
        "localhost@evil.example", "[::1", "127.0.0.1.evil.example"}) {
    ExpectRefusal(server.port(), get(host), 421, "unknown_host");
  }
  ExpectRefusal(server.port(),
                "GET http://evil.example/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
                421, "unknown_host");
  // Before the body is sent.
  ExpectRefusal(server.port(),
                "POST / HTTP/1.1\r\nHost: evil.example\r\nExpect: "
                "100-continue\r\nContent-Length: 5\r\n\r\n",
                421, "unknown_host");
}

TEST(HttpServerLimitsTest, StopsReadingAheadOfAnAnswer) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(Get("/0"));
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  constexpr int kAhead = 1000;
  std::string ahead;
  for (int i = 0; i < kAhead; ++i) {
    ahead += Get("/ahead", "X: " + std::string(100, 'x') + "\r\n");
  }
  client.Send(ahead);  // over 100 KB; the kernel holds what we do not
  call.reply->Send(200, {}, "0");
  EXPECT_EQ(client.ReadAnswer()->body, "0");
  for (int i = 0; i < kAhead; ++i) {
    const HttpCall next = server.Await();
    ASSERT_NE(next.reply, nullptr);
    next.reply->Send(200, {}, std::to_string(i));
    EXPECT_EQ(client.ReadAnswer()->body, std::to_string(i));
  }
}

}  // namespace
}  // namespace deltafin::testing
