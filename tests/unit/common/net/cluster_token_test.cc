#include "common/net/cluster_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/net/secret_file.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(ClusterTokenTest, ReadsTheTokenAndThoseAcceptedBesideIt) {
  const auto tokens =
      ParseClusterTokens("# ours\n\n" + kDigits + "\r\n" +
                         std::string(kDigits.rbegin(), kDigits.rend()));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0][0], 0x00);
  EXPECT_EQ((*tokens)[0][31], 0x1f);
  EXPECT_EQ((*tokens)[1][0], 0xf1);
}

TEST(ClusterTokenTest, RefusesWhatIsNoTokenWithoutQuotingIt) {
  const std::string secret = "correct horse battery staple";
  for (const std::string& text :
       {std::string(), std::string("# nothing\n"), secret, kDigits + "0",
        kDigits.substr(1), "g" + kDigits.substr(1), std::string(64, '7'),
        kDigits + "\n" + kDigits + "\n" + kDigits + "\n" + kDigits + "\n" +
            kDigits}) {
    const auto tokens = ParseClusterTokens(text);
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(tokens.status().message()),
                AllOf(HasSubstr("line "), HasSubstr("certs token"),
                      Not(HasSubstr(secret)), Not(HasSubstr("0405"))));
  }
}

TEST(ClusterTokenTest, MakesFilesOfTheirOwnerAloneAndNeverReplacesOne) {
  TempDir dir;
  const std::string path = dir.File("token");
  ASSERT_TRUE(MakeClusterTokenFile(path).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const auto first = ReadClusterTokens(path);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(MakeClusterTokenFile(path).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadClusterTokens(path), *first);
  ASSERT_TRUE(MakeClusterTokenFile(dir.File("other")).ok());
  EXPECT_NE(*ReadClusterTokens(dir.File("other")), *first);
}

TEST(ClusterTokenTest, RefusesAFileThatOthersMayReadOrWrite) {
  TempDir dir;
  const std::string path = dir.File("token");
  ASSERT_TRUE(MakeClusterTokenFile(path).ok());
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto tokens = ReadClusterTokens(path);
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(tokens.status().message()),
                AllOf(HasSubstr(path), HasSubstr("chmod 600")));
  }
}

}  // namespace
}  // namespace deltafin
