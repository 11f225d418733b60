#include "common/net/http_target.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(HttpTargetTest, SplitsTheFormsOfATarget) {
  struct Case {
    const char* target;
    const char* authority;
    const char* path;
    const char* query;
  };
  for (const Case& c :
       {Case{"/", "", "/", ""}, Case{"/a/b", "", "/a/b", ""},
        Case{"/a?b=c?d", "", "/a", "b=c?d"}, Case{"/?", "", "/", ""},
        Case{"*", "", "*", ""}, Case{"//a/b", "", "//a/b", ""},
        Case{"http://h:1/a?b", "h:1", "/a", "b"},
        Case{"HTTPS://h", "h", "/", ""}, Case{"http://h?q", "h", "/", "q"}}) {
    const auto split = SplitHttpTarget(c.target);
    ASSERT_TRUE(split.has_value()) << c.target;
    EXPECT_EQ(split->authority, c.authority) << c.target;
    EXPECT_EQ(split->path, c.path) << c.target;
    EXPECT_EQ(split->query, c.query) << c.target;
  }
}

TEST(HttpTargetTest, RefusesWhatIsNoTarget) {
  for (const char* target :
       {"", "a", "?a", "/a b", "/a#b", "/\x7f", "/\xc3\xa4", "http://",
        "http:///a", "ftp://h/a", "h:80", "**", "/a\tb"}) {
    EXPECT_FALSE(SplitHttpTarget(target).has_value()) << target;
  }
}

TEST(HttpTargetTest, FindsTheNameOfAHost) {
  EXPECT_EQ(HttpHostName("LocalHost:8080"), "localhost");
  EXPECT_EQ(HttpHostName("a.b."), "a.b");
  EXPECT_EQ(HttpHostName("a.b.:1"), "a.b");
  EXPECT_EQ(HttpHostName("10.0.0.1:"), "10.0.0.1");
  EXPECT_EQ(HttpHostName("[FE80::1]:1"), "fe80::1");
  for (const char* host :
       {"", ".", ":1", "a:b", "a:123456", "a:1:2", "::1", "[::1", "[::1]x",
        "[::1]:x", "[a]", "[]", "a b", "a/b", "user@a", "a,b"}) {
    EXPECT_FALSE(HttpHostName(host).has_value()) << host;
  }
  EXPECT_FALSE(HttpHostName(std::string(256, 'a')).has_value());
  EXPECT_FALSE(HttpHostName(std::string_view("a\0", 2)).has_value());
  EXPECT_FALSE(HttpHostName(std::string_view("[::1\0]", 6)).has_value());
}

TEST(HttpHostPolicyTest, AllowsLoopbackAndWhatItIsTold) {
  const HttpHostPolicy policy("Mine.lan", /*is_public=*/false, {"Other.lan"});
  for (const char* name : {"localhost", "127.0.0.1", "127.255.0.9", "::1",
                           "mine.lan", "other.lan", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(policy.Allows(name)) << name;
  }
  for (const char* name : {"a.lan", "10.0.0.1", "128.0.0.1", "::2",
                           "a.localhost", "127.1", "2130706433"}) {
    EXPECT_FALSE(policy.Allows(name)) << name;
  }
}

TEST(HttpHostPolicyTest, AllowsAnyAddressButNoOtherNameBeyondLoopback) {
  const HttpHostPolicy policy("0.0.0.0", /*is_public=*/true, {});
  EXPECT_TRUE(policy.Allows("192.168.1.10"));
  EXPECT_TRUE(policy.Allows("fe80::1"));
  EXPECT_TRUE(policy.Allows("localhost"));
  EXPECT_FALSE(policy.Allows("evil.example"));
  EXPECT_FALSE(policy.Allows("192.168.1"));
}

}  // namespace
}  // namespace deltafin
