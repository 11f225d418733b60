#include "common/net/http_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

TEST(HttpRoutesTest, AnswersItsPathsAndNoOther) {
  HttpTestServer server(
      {}, FixedRoutes({{"/a.b", "text/plain", [] { return "here"; }}}));
  HttpSocket client(server.port());
  client.Send(Get("/a.b?x"));
  const auto found = client.ReadAnswer();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->status, 200);
  EXPECT_EQ(found->headers.at("content-type"), "text/plain");
  EXPECT_EQ(found->body, "here");
  for (const char* path : {"/axb", "/", "/a.b/", "/A.b"}) {
    client.Send(Get(path));
    const auto missing = client.ReadAnswer();
    ASSERT_TRUE(missing.has_value());
    EXPECT_EQ(missing->status, 404);
    EXPECT_THAT(missing->body, HasSubstr("\"code\":\"not_found\""));
  }
  client.Send("HEAD /a.b HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer(/*is_head=*/true)->status, 200);
  client.Send("DELETE /a.b HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto refused = client.ReadAnswer();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->headers.at("allow"), "GET, HEAD");
}

TEST(HttpRoutesTest, WritesErrorsThatClientsOfTheApiCanRead) {
  EXPECT_EQ(HttpErrorBody(400, "bad", "say \"x\"\n"),
            "{\"error\":{\"message\":\"say \\\"x\\\"\\n\",\"type\":"
            "\"invalid_request_error\",\"param\":null,\"code\":\"bad\"}}");
  EXPECT_THAT(HttpErrorBody(503, "full", "x"),
              HasSubstr("\"type\":\"server_error\""));
  EXPECT_THAT(HttpErrorBody(400, "bad", "\xff"), HasSubstr("\xef\xbf\xbd"));
}

}  // namespace
}  // namespace deltafin::testing
