// The Hub by https: whose certificates are taken, where the token goes, what a
// redirect may lose.
#include <gmock/gmock.h>

#include "common/base/file_io.h"
#include "tests/unit/expert_node/storage/hub_test.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using Tls = HubEmulatorOptions::Tls;

class HubTlsTest : public HubTest {
 protected:
  void StartWith(Tls tls) {
    emulator_options_.tls = tls;
    StartEmulator();
    ASSERT_TRUE(WriteFileAtomically(authority_, emulator_->authority()).ok());
    ASSERT_THAT(emulator_->endpoint(), HasSubstr("https://localhost:"));
  }

  // Beside the repository's files, not among them.
  const TempDir elsewhere_;
  const std::string authority_ = elsewhere_.File("authority.pem");
};

TEST_F(HubTlsTest, ReadsFromBothHostsAndSendsTheTokenToTheHubAlone) {
  emulator_options_.token = "hf_secret";
  StartWith(Tls::kBoth);
  options_.access.ca_file = authority_;
  options_.access.token = "hf_secret";
  const absl::Status connected = Connect();
  ASSERT_TRUE(connected.ok()) << connected;
  const absl::Status read = ReadLarge(5000, 200000);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(emulator_->num_cdn_requests(), 1);
  EXPECT_EQ(emulator_->num_foreign_authorizations(), 0);
}

TEST_F(HubTlsTest, AsksNothingOfAHostWhoseAuthorityIsUnknown) {
  StartWith(Tls::kBoth);
  const absl::Status unknown = Connect();
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("certificate"));
  EXPECT_TRUE(emulator_->requests().empty());
}

TEST_F(HubTlsTest, AsksNothingOfAHostOfAnotherName) {
  StartWith(Tls::kBoth);
  options_.access.ca_file = authority_;
  std::string& endpoint = options_.access.endpoint;
  endpoint.replace(endpoint.find("localhost"), 9, "127.0.0.1");
  const absl::Status other = Connect();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_TRUE(emulator_->requests().empty());
}

TEST_F(HubTlsTest, NamesAuthoritiesThatAreNone) {
  StartWith(Tls::kBoth);
  ASSERT_TRUE(WriteFileAtomically(authority_, "no certificate").ok());
  options_.access.ca_file = authority_;
  const absl::Status none = Connect();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr(authority_));
}

TEST_F(HubTlsTest, FollowsNoRedirectFromHttpsToHttp) {
  StartWith(Tls::kHub);
  options_.access.ca_file = authority_;
  ASSERT_TRUE(Connect().ok());
  const absl::Status read = ReadLarge(0, 1000);
  EXPECT_TRUE(absl::IsPermissionDenied(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("http"));
  EXPECT_EQ(emulator_->num_cdn_requests(), 0);
}

TEST_F(HubTlsTest, GoesOnAfterATruncatedAnswerAndAnExpiredUrl) {
  StartWith(Tls::kBoth);
  options_.access.ca_file = authority_;
  ASSERT_TRUE(Connect().ok());
  Inject(FaultKind::kTruncated, 2);
  const absl::Status truncated = ReadLarge(0, 300000);
  EXPECT_TRUE(truncated.ok()) << truncated;
  emulator_->ExpireUrls();
  const absl::Status expired = ReadLarge(1000, 1000);
  EXPECT_TRUE(expired.ok()) << expired;
  EXPECT_EQ(source_->counts().resolves, 2u);
}

}  // namespace
}  // namespace deltafin
