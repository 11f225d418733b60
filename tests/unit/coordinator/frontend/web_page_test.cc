#include "coordinator/frontend/web_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/unit/coordinator/frontend/recorded_reply.h"

namespace deltafin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RecordedReply;

std::unique_ptr<RecordedReply> Ask(const std::string& path,
                                   const std::string& method = "GET",
                                   HttpHeaders headers = {}) {
  static const WebPage page;
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.headers = std::move(headers);
  auto reply = std::make_unique<RecordedReply>();
  page.Handle(request, *reply);
  return reply;
}

TEST(WebPageTest, ServesThePageAtTheRoot) {
  const auto reply = Ask("/");
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(reply->header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(reply->body(), HasSubstr("<title>deltafin</title>"));
  EXPECT_THAT(reply->body(), HasSubstr("</html>\n"));
}

TEST(WebPageTest, NothingFromElsewhereIsLoadedOrRun) {
  const auto reply = Ask("/");
  const std::string policy = reply->header("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("script-src 'self';"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(reply->header("X-Content-Type-Options"), "nosniff");
  for (const WebFile& file : WebFiles()) {
    if (file.path == "icon.svg") continue;  // names the format by an address
    const std::string text(file.content);
    EXPECT_FALSE(std::regex_search(
        text, std::regex(R"((src|href|import|url\()\s*=?\s*["']?https?://)")))
        << file.path;
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << file.path;
  }
}

TEST(WebPageTest, EveryFileThatThePageNamesIsThere) {
  const WebPage page;
  const std::regex named(
      R"re((?:href|src)="([a-z_]+\.(?:js|css|svg))"|from "\./([a-z_]+\.js)")re");
  int count = 0;
  for (const WebFile& file : WebFiles()) {
    const std::string text(file.content);
    for (std::sregex_iterator it(text.begin(), text.end(), named), end;
         it != end; ++it) {
      const std::string name = (*it)[1].matched ? (*it)[1] : (*it)[2];
      EXPECT_THAT(page.paths(), Contains("/" + name)) << file.path;
      ++count;
    }
  }
  EXPECT_GT(count, 20);
}

TEST(WebPageTest, EveryFileHasItsType) {
  EXPECT_EQ(Ask("/app.js")->header("Content-Type"),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(Ask("/base.css")->header("Content-Type"),
            "text/css; charset=utf-8");
  EXPECT_EQ(Ask("/icon.svg")->header("Content-Type"), "image/svg+xml");
}

TEST(WebPageTest, AClientThatHasAFileIsToldSo) {
  const std::string etag = Ask("/app.js")->header("ETag");
  ASSERT_FALSE(etag.empty());
  EXPECT_NE(etag, Ask("/api.js")->header("ETag"));
  for (const std::string& known :
       {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    const auto reply = Ask("/app.js", "GET", {{"if-none-match", known}});
    EXPECT_EQ(reply->status(), 304) << known;
    EXPECT_THAT(reply->body(), IsEmpty());
    EXPECT_EQ(reply->header("ETag"), etag);
  }
  EXPECT_EQ(Ask("/app.js", "GET", {{"if-none-match", "\"other\""}})->status(),
            200);
}

TEST(WebPageTest, RefusesOtherPathsAndMethods) {
  EXPECT_EQ(Ask("/nothing.js")->status(), 404);
  EXPECT_EQ(Ask("/../app.js")->status(), 404);
  const auto reply = Ask("/app.js", "POST");
  EXPECT_EQ(reply->status(), 405);
  EXPECT_EQ(reply->header("allow"), "GET, HEAD");
}

}  // namespace
}  // namespace deltafin
