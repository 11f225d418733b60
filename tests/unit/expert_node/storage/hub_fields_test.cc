#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/base/file_io.h"
#include "expert_node/storage/http_answer.h"
#include "expert_node/storage/http_fields.h"
#include "expert_node/storage/http_url.h"
#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/hub_listing.h"
#include "expert_node/storage/retry_budget.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

TEST(HttpFieldsTest, TakesOnlyAnExactContentRange) {
  const auto range = ParseContentRange("bytes 5-9/20");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 5u);
  EXPECT_EQ(range->last, 9u);
  EXPECT_EQ(range->total, 20u);
  for (const char* bad :
       {"", "bytes", "bytes 5-9/*", "bytes */20", "bytes 9-5/20",
        "bytes 5-20/20", "bytes -5-9/20", "bytes 5-9/20x", "items 5-9/20",
        "bytes 5-9", "bytes 99999999999999999999-9/20", "bytes 5/9-20"}) {
    EXPECT_FALSE(ParseContentRange(bad).has_value()) << bad;
  }
}

TEST(HttpFieldsTest, FindsTheNextLink) {
  EXPECT_EQ(NextLink("<http://a/?c=1>; rel=\"next\""), "http://a/?c=1");
  EXPECT_EQ(NextLink("<http://a>; rel=\"prev\", <http://b>; rel=\"next\""),
            "http://b");
  EXPECT_EQ(NextLink("<http://a>; rel=\"last\""), "");
  EXPECT_EQ(NextLink("<http://a"), "");
  EXPECT_EQ(NextLink(""), "");
}

TEST(HttpFieldsTest, ReadsRetryAfterInSecondsAndAsADate) {
  const absl::Time now = absl::FromCivil(
      absl::CivilSecond(2026, 7, 27, 10, 0, 0), absl::UTCTimeZone());
  EXPECT_EQ(ParseRetryAfter("120", now), absl::Seconds(120));
  EXPECT_EQ(ParseRetryAfter("Mon, 27 Jul 2026 10:00:30 GMT", now),
            absl::Seconds(30));
  EXPECT_EQ(ParseRetryAfter("Mon, 27 Jul 2026 09:00:00 GMT", now),
            absl::ZeroDuration());
  EXPECT_GT(ParseRetryAfter("9999999999999999999", now), absl::Hours(1));
  EXPECT_FALSE(ParseRetryAfter("soon", now).has_value());
  EXPECT_FALSE(ParseRetryAfter("-1", now).has_value());
}

TEST(HttpFieldsTest, StripsWhatServersAddToEntityTags) {
  for (const char* etag : {"\"abc\"", "W/\"abc\"", "\"abc-gzip\"",
                           "W/\"abc;br\"", "abc", " \"abc--gzip\" "}) {
    EXPECT_EQ(NormalizedEtag(etag), "abc") << etag;
  }
  EXPECT_EQ(NormalizedEtag(""), "");
}

TEST(HttpUrlTest, TellsWhoIsAsked) {
  const auto url = ParseHttpUrl("HTTPS://Hub.Example/a?b#c");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->text(), "https://hub.example:443/a?b");
  EXPECT_TRUE(ParseHttpUrl("http://127.9.9.9")->loopback());
  EXPECT_TRUE(ParseHttpUrl("http://[::1]:80/")->loopback());
  EXPECT_FALSE(ParseHttpUrl("http://127.evil.example")->loopback());
  EXPECT_FALSE(ParseHttpUrl("http://localhost.example")->loopback());
  for (const char* bad :
       {"", "ftp://a/", "https://", "https://u:p@a/", "https://a:0/",
        "https://a:99999/", "https://a b/", "file:///etc/passwd", "a/b",
        "https://a\\@b/", "https://a/\r\nX: y"}) {
    EXPECT_FALSE(ParseHttpUrl(bad).ok()) << bad;
  }
}

TEST(HttpUrlTest, FollowsNoRedirectThatLosesEncryption) {
  const auto base = *ParseHttpUrl("https://hub.example/a/b?c=/d");
  EXPECT_EQ(RedirectTarget(base, "/x")->text(), "https://hub.example:443/x");
  EXPECT_EQ(RedirectTarget(base, "x?y")->text(),
            "https://hub.example:443/a/x?y");
  EXPECT_EQ(RedirectTarget(base, "//cdn.example/x")->text(),
            "https://cdn.example:443/x");
  EXPECT_EQ(RedirectTarget(base, "https://cdn.example/x")->text(),
            "https://cdn.example:443/x");
  EXPECT_TRUE(absl::IsPermissionDenied(
      RedirectTarget(base, "http://cdn.example/x").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(
      RedirectTarget(base, "http://hub.example/x").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(
      RedirectTarget(base, "http://127.0.0.1/x").status()));
  EXPECT_FALSE(RedirectTarget(base, "").ok());
  EXPECT_FALSE(RedirectTarget(base, "file:///etc/passwd").ok());
}

TEST(HttpAnswerTest, KeepsOnlyTheLastAnswersFields) {
  HttpAnswer answer;
  answer.AddHeaderLine("HTTP/1.1 100 Continue\r\n");
  answer.AddHeaderLine("Content-Range: bytes 0-1/2\r\n");
  answer.AddHeaderLine("HTTP/1.1 206 Partial Content\r\n");
  answer.AddHeaderLine("ETag:  \"x\" \r\n");
  EXPECT_EQ(answer.status, 206);
  EXPECT_EQ(answer.field("etag"), "\"x\"");
  EXPECT_EQ(answer.field("content-range"), "");
}

constexpr char kOid[] = "0123456789012345678901234567890123456789";

std::string Entry(const std::string& path, const std::string& size) {
  return "[{\"type\":\"file\",\"path\":\"" + path + "\",\"size\":" + size +
         ",\"oid\":\"" + kOid + "\"}]";
}

TEST(HubListingTest, RefusesNamesThatLeaveTheFolderAndSizesOutOfRange) {
  const auto good = ParseTreePage(Entry("a/b.json", "7"));
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_EQ(good->size(), 1u);
  EXPECT_EQ((*good)[0].name, "a/b.json");
  EXPECT_EQ((*good)[0].bytes, 7u);
  EXPECT_EQ((*good)[0].etag, kOid);
  for (const char* name : {"../a", "a/../b", "/etc/passwd", "a//b", "", ".",
                           "a/", "a\\\\b", "a\\nb", "a\\u0000b"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseTreePage(Entry(name, "7")).status()))
        << name;
  }
  for (const char* size : {"-1", "1e9", "\"7\"", "18446744073709551615"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseTreePage(Entry("a", size)).status()))
        << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(ParseTreePage("{").status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseTreePage("[1]").status()));
  EXPECT_EQ(*ParseCommit(std::string("{\"sha\":\"") + kOid + "\"}"), kOid);
  EXPECT_FALSE(ParseCommit("{\"sha\":\"main\"}").ok());
}

TEST(HubEnvironmentTest, FollowsTheConventionsOfHuggingFacesTools) {
  TempDir home;
  ASSERT_TRUE(WriteFileAtomically(home.File("token"), " hf_file \n").ok());
  std::map<std::string, std::string> variables;
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_EQ(ReadHubAccess(lookup)->endpoint, "https://huggingface.co");
  EXPECT_EQ(ReadHubAccess(lookup)->token, "");
  variables["HF_HOME"] = home.path();
  EXPECT_EQ(ReadHubAccess(lookup)->token, "hf_file");
  variables["HF_TOKEN"] = "hf_variable";
  variables["HF_ENDPOINT"] = "http://127.0.0.1:80/";
  EXPECT_EQ(ReadHubAccess(lookup)->token, "hf_variable");
  EXPECT_EQ(ReadHubAccess(lookup)->endpoint, "http://127.0.0.1:80");
  EXPECT_EQ(ReadHubAccess(lookup)->ca_file, "");
  variables["SSL_CERT_FILE"] = home.File("token");
  EXPECT_EQ(ReadHubAccess(lookup)->ca_file, home.File("token"));
  variables["CURL_CA_BUNDLE"] = home.File("absent.pem");
  const auto absent = ReadHubAccess(lookup);
  EXPECT_TRUE(absl::IsInvalidArgument(absent.status()));
  EXPECT_THAT(
      std::string(absent.status().message()),
      ::testing::HasSubstr("CURL_CA_BUNDLE: " + home.File("absent.pem")));
  variables["CURL_CA_BUNDLE"] = "";
  variables["HF_TOKEN"] = "hf_x\r\nX-Evil: 1";
  const auto bad = ReadHubAccess(lookup);
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
  EXPECT_EQ(bad.status().message().find("Evil"), absl::string_view::npos);
  variables["HF_ENDPOINT"] = "ftp://x";
  EXPECT_FALSE(ReadHubAccess(lookup).ok());
}

TEST(HubEnvironmentTest, ReadsRepositoryAndRevision) {
  EXPECT_EQ(ParseModelRevision("a/b")->revision, "main");
  EXPECT_EQ(ParseModelRevision("a/b@refs/pr/1")->revision, "refs/pr/1");
  for (const char* bad : {"", "a", "a/b/c", "a/b@", "../b", "a/..", "a/b@..",
                          "a/b@x y", "a/b?c", "@x"}) {
    EXPECT_FALSE(ParseModelRevision(bad).ok()) << bad;
  }
}

TEST(RetryBudgetTest, IsSpentByRetriesAndRestoredBySuccesses) {
  RetryBudget budget({.capacity = 2, .per_success = 0.5});
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_FALSE(budget.TakeRetry());
  EXPECT_FALSE(budget.Pause(absl::Seconds(1)));
  budget.Succeeded();
  EXPECT_FALSE(budget.TakeRetry());
  budget.Succeeded();
  EXPECT_TRUE(budget.TakeRetry());
}

TEST(RetryBudgetTest, TakesOneRetryForAPauseHoweverManyMeetIt) {
  ManualClock clock;
  RetryBudget budget({.capacity = 2, .longest_pause = absl::Minutes(1)}, clock);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(budget.Pause(absl::Seconds(5)));
  EXPECT_EQ(budget.not_before(), clock.Now() + absl::Seconds(5));
  EXPECT_EQ(budget.num_pauses(), 1u);
  EXPECT_FALSE(budget.Pause(absl::Minutes(2)));
  clock.Advance(absl::Seconds(6));
  EXPECT_TRUE(budget.Pause(absl::Seconds(5)));
  EXPECT_EQ(budget.num_pauses(), 2u);
  clock.Advance(absl::Seconds(6));
  EXPECT_FALSE(budget.Pause(absl::Seconds(5)));
}

}  // namespace
}  // namespace deltafin
