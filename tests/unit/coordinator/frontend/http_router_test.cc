#include "coordinator/frontend/http_router.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/recorded_reply.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RecordedReply;
using ::testing::StartsWith;

constexpr char kKeyText[] = "sk-0123456789abcdef";

ApiKeys KeysOf(const TempDir& dir, const std::string& text) {
  const std::string path = dir.path() + "/keys";
  std::ofstream(path) << text;
  chmod(path.c_str(), 0600);
  const auto keys = ApiKeys::Load(path);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return keys.value_or(ApiKeys());
}

class HttpRouterTest : public ::testing::Test {
 protected:
  void Make(RouterOptions options) {
    router_ = std::make_unique<HttpRouter>(std::move(options));
    Add("GET", "/a", RouteAccess::kOpen);
    Add("GET", "/b", RouteAccess::kKey);
    Add("POST", "/b", RouteAccess::kKey);
    Add("GET", "/b/", RouteAccess::kOpen);
    Add("GET", "/", RouteAccess::kOpen);
  }
  void Add(const std::string& method, const std::string& path,
           RouteAccess access) {
    router_->Add({method, path, access,
                  [text = method + " " + path](
                      const HttpRequest&, std::shared_ptr<HttpReply> reply) {
                    reply->Send(200, {}, text);
                  }});
  }
  std::shared_ptr<RecordedReply> Ask(const std::string& method,
                                     const std::string& path,
                                     HttpHeaders headers = {}) {
    auto reply = std::make_shared<RecordedReply>();
    headers.emplace_back("host", "localhost:8080");
    router_->Handle({method, path, "", std::move(headers), ""}, reply);
    return reply;
  }

  TempDir dir_;
  std::unique_ptr<HttpRouter> router_;
};

TEST_F(HttpRouterTest, FindsTheLongestPathAndItsMethod) {
  Make({});
  EXPECT_EQ(Ask("GET", "/a")->body(), "GET /a");
  EXPECT_EQ(Ask("HEAD", "/a")->body(), "GET /a");
  EXPECT_EQ(Ask("POST", "/b")->body(), "POST /b");
  EXPECT_EQ(Ask("GET", "/b/c/d")->body(), "GET /b/");
  EXPECT_EQ(Ask("GET", "/")->body(), "GET /");
  EXPECT_EQ(Ask("GET", "/c")->status(), 404);
  EXPECT_EQ(Ask("GET", "/a/")->status(), 404);
  const auto refused = Ask("DELETE", "/b");
  EXPECT_EQ(refused->status(), 405);
  EXPECT_EQ(refused->header("Allow"), "GET, HEAD, POST");
}

TEST_F(HttpRouterTest, EveryAnswerHasAnIdOfItsOwn) {
  Make({});
  const std::string first = Ask("GET", "/a")->header("X-Request-Id");
  EXPECT_THAT(first, StartsWith("req_"));
  EXPECT_NE(Ask("GET", "/nowhere")->header("X-Request-Id"), first);
}

TEST_F(HttpRouterTest, AsksForAKeyWhereOneIsNeeded) {
  RouterOptions options;
  options.keys = KeysOf(
      dir_, "# ours\n\n" + std::string(kKeyText) + "\nsk-another-key-0001\r\n");
  Make(std::move(options));
  const auto bearer = [](const std::string& key) {
    return HttpHeaders{{"authorization", key}};
  };
  EXPECT_EQ(Ask("GET", "/a")->status(), 200);
  EXPECT_EQ(
      Ask("GET", "/b", bearer("Bearer " + std::string(kKeyText)))->status(),
      200);
  EXPECT_EQ(Ask("GET", "/b", bearer("bearer sk-another-key-0001"))->status(),
            200);
  for (const char* wrong :
       {"", "Bearer", "Bearer ", "Bearer sk-0123456789abcdeg",
        "Bearer sk-0123456789abcde", "Basic sk-0123456789abcdef",
        "sk-0123456789abcdef", "Bearer # ours"}) {
    const auto reply = Ask("GET", "/b", bearer(wrong));
    EXPECT_EQ(reply->status(), 401) << wrong;
    EXPECT_EQ(nlohmann::json::parse(reply->body())["error"]["code"],
              "invalid_api_key");
  }
  EXPECT_EQ(Ask("GET", "/b")->status(), 401);
}

TEST_F(HttpRouterTest, KeysMustBeLongAndTheirFileSecret) {
  const std::string path = dir_.path() + "/keys";
  std::ofstream(path) << "# a comment\nsk-short\n";
  chmod(path.c_str(), 0600);
  const absl::Status status = ApiKeys::Load(path).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("keys:2"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("sk-short")));
  std::ofstream(path) << "# nothing\n";
  EXPECT_TRUE(absl::IsInvalidArgument(ApiKeys::Load(path).status()));
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(absl::IsPermissionDenied(ApiKeys::Load(path).status()));
}

TEST_F(HttpRouterTest, PagesOfOtherSitesAreRefused) {
  Make({});
  const auto own = Ask("GET", "/a", {{"origin", "http://localhost:8080"}});
  EXPECT_EQ(own->status(), 200);
  EXPECT_EQ(own->header("Access-Control-Allow-Origin"), "");
  for (const char* foreign :
       {"http://evil.example", "null", "http://localhost:8081",
        "http://localhost:8080.evil.example"}) {
    EXPECT_EQ(Ask("GET", "/a", {{"origin", foreign}})->status(), 403);
    EXPECT_EQ(
        Ask("OPTIONS", "/a",
            {{"origin", foreign}, {"access-control-request-method", "GET"}})
            ->status(),
        403);
  }
}

TEST_F(HttpRouterTest, AllowedOriginsMayAskAndRead) {
  RouterOptions options;
  options.cors_origins = {"https://chat.example"};
  Make(std::move(options));
  const HttpHeaders origin = {{"origin", "https://chat.example"}};
  const auto reply = Ask("GET", "/a", origin);
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(reply->header("Access-Control-Allow-Origin"),
            "https://chat.example");
  EXPECT_THAT(reply->header("Access-Control-Expose-Headers"),
              HasSubstr("X-Request-Id"));
  const auto preflight =
      Ask("OPTIONS", "/b",
          {{"origin", "https://chat.example"},
           {"access-control-request-method", "POST"},
           {"access-control-request-headers", "authorization,x-a"}});
  EXPECT_EQ(preflight->status(), 204);
  EXPECT_EQ(preflight->header("Access-Control-Allow-Headers"),
            "authorization,x-a");
  EXPECT_THAT(preflight->header("Access-Control-Allow-Methods"),
              HasSubstr("POST"));
  EXPECT_EQ(Ask("GET", "/a", {{"origin", "https://evil.example"}})->status(),
            403);
}

}  // namespace
}  // namespace deltafin
