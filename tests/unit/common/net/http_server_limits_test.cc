// What slow, greedy and hostile clients get, over real sockets.

#include <gtest/gtest.h>
#include <poll.h>

#include "common/net/http_server.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

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

}  // namespace
}  // namespace deltafin::testing
