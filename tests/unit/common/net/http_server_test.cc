#include "common/net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/net/listen_address.h"
#include "tests/testing/http_get.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::HttpExchange;
using testing::HttpGet;
using ::testing::StartsWith;

std::unique_ptr<HttpServer> StartServer(int* port) {
  HttpServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = HttpServer::Start(
      options, {{"/a.b", "text/plain", [] { return std::string("here"); }}});
  EXPECT_TRUE(server.ok()) << server.status();
  *port = ListenAddress::Parse((*server)->address())->port;
  return *std::move(server);
}

TEST(HttpServerTest, AnswersItsPathsAndNoOther) {
  int port = 0;
  const auto server = StartServer(&port);
  const auto found = HttpGet(port, "/a.b");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(*found, HasSubstr("text/plain"));
  EXPECT_THAT(*found, HasSubstr("\r\n\r\nhere"));
  EXPECT_THAT(*HttpGet(port, "/axb"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(*HttpGet(port, "/"), StartsWith("HTTP/1.1 404"));
}

TEST(HttpServerTest, RefusesLongPathsAndForeignWords) {
  int port = 0;
  const auto server = StartServer(&port);
  EXPECT_THAT(*HttpGet(port, "/" + std::string(9000, 'x')),
              StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(*HttpExchange(port, "no such thing\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(*HttpGet(port, "/a.b"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, RefusesAPortInUseAndOtherInterfaces) {
  int port = 0;
  const auto server = StartServer(&port);
  HttpServerOptions options;
  options.listen = server->address();
  EXPECT_EQ(HttpServer::Start(options, {}).status().code(),
            absl::StatusCode::kUnavailable);
  options.listen = "0.0.0.0:0";
  EXPECT_EQ(HttpServer::Start(options, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HttpServerTest, EndsAtOnceAfterItsStart) {
  int port = 0;
  for (int i = 0; i < 20; ++i) StartServer(&port).reset();
}

}  // namespace
}  // namespace deltafin
