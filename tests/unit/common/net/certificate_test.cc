#include "common/net/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "absl/time/clock.h"
#include "common/net/member_rights.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

Validity Around(absl::Time middle) {
  return {middle - absl::Hours(1), middle + absl::Hours(1)};
}

std::array<uint8_t, 32> CountingSecret() {
  std::array<uint8_t, 32> secret;
  std::iota(secret.begin(), secret.end(), 0);
  return secret;
}

std::string KeyOf(const CertificateAndKey& pair) {
  return ReadCertificate(pair.certificate)->key_sha256;
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(CertificateTest, ASecretStandsForOneAuthorityEverywhere) {
  const auto first = AuthorityOfSecret(CountingSecret());
  const auto second = AuthorityOfSecret(CountingSecret());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->key, second->key);
  // HKDF by hmac and hashlib, the point by schoolbook arithmetic, in Python.
  EXPECT_EQ(KeyOf(*first),
            "667c99ba47fb40306d6605332515ef8b86fc8c9c78fa222b2b9b900016bdaae2");
  auto other_secret = CountingSecret();
  other_secret[31] ^= 1;
  EXPECT_NE(KeyOf(*AuthorityOfSecret(other_secret)), KeyOf(*first));
}

TEST(CertificateTest, HoldersOfASecretCertifyForEachOther) {
  const auto mine = AuthorityOfSecret(CountingSecret());
  const auto yours = AuthorityOfSecret(CountingSecret());
  const auto own = IssueCertificate(*mine, "box", UnlimitedValidity());
  ASSERT_TRUE(own.ok()) << own.status();
  for (const absl::Time clock : {absl::FromUnixSeconds(1'000'000'000), kNow,
                                 absl::FromUnixSeconds(9'000'000'000)}) {
    EXPECT_EQ(CheckCertificate(*own, yours->certificate, clock),
              absl::OkStatus());
  }
}

TEST(CertificateTest, TellsWhatIsInIt) {
  const auto authority = MakeAuthority(Around(kNow));
  const auto own = IssueCertificate(*authority, "box-1", Around(kNow));
  const auto facts = ReadCertificate(own->certificate);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->subject, "box-1");
  EXPECT_THAT(facts->issuer, StartsWith("deltafin authority "));
  EXPECT_THAT(facts->names, ElementsAre("deltafin.cluster", "box-1"));
  EXPECT_EQ(facts->validity.not_before, Around(kNow).not_before);
  EXPECT_EQ(facts->validity.not_after, Around(kNow).not_after);
  EXPECT_FALSE(facts->is_authority);
  EXPECT_TRUE(ReadCertificate(authority->certificate)->is_authority);
}

TEST(CertificateTest, IsRefusedOutsideItsTime) {
  const auto authority = MakeAuthority(UnlimitedValidity());
  const auto own = IssueCertificate(*authority, "box", Around(kNow));
  const auto check = [&](absl::Duration from_now) {
    return CheckCertificate(*own, authority->certificate, kNow + from_now);
  };
  EXPECT_EQ(check(absl::Minutes(59)), absl::OkStatus());
  EXPECT_THAT(Message(check(absl::Minutes(61))), HasSubstr("has expired"));
  EXPECT_THAT(Message(check(-absl::Minutes(61))),
              HasSubstr("is not valid yet"));
}

TEST(CertificateTest, OfAForeignAuthorityIsRefused) {
  const auto ours = MakeAuthority(Around(kNow));
  const auto foreign = MakeAuthority(Around(kNow));
  const auto own = IssueCertificate(*foreign, "box", Around(kNow));
  EXPECT_THAT(Message(CheckCertificate(*own, ours->certificate, kNow)),
              HasSubstr("not of this authority"));
  // A list of authorities holds for any of them.
  EXPECT_EQ(
      CheckCertificate(*own, ours->certificate + foreign->certificate, kNow),
      absl::OkStatus());
}

TEST(CertificateTest, AMachineIsNoAuthority) {
  const auto authority = MakeAuthority(Around(kNow));
  const auto machine = IssueCertificate(*authority, "box", Around(kNow));
  const auto child = IssueCertificate(*machine, "child", Around(kNow));
  ASSERT_TRUE(child.ok()) << child.status();
  for (const std::string& roots :
       {authority->certificate, machine->certificate}) {
    EXPECT_FALSE(CheckCertificate(*child, roots, kNow).ok());
  }
}

TEST(CertificateTest, TamperedOnesAreRefused) {
  const auto authority = MakeAuthority(Around(kNow));
  const auto own = IssueCertificate(*authority, "box", Around(kNow));
  const size_t begin = own->certificate.find('\n') + 1;
  for (size_t at = begin; at + 40 < own->certificate.size(); at += 7) {
    CertificateAndKey tampered = *own;
    char& letter = tampered.certificate[at];
    if (letter == '\n') continue;
    letter = letter == 'A' ? 'B' : 'A';
    EXPECT_FALSE(CheckCertificate(tampered, authority->certificate, kNow).ok())
        << at;
  }
}

TEST(CertificateTest, KeyAndCertificateMustBelongTogether) {
  const auto authority = MakeAuthority(Around(kNow));
  auto own = IssueCertificate(*authority, "box", Around(kNow));
  own->key = IssueCertificate(*authority, "box", Around(kNow))->key;
  EXPECT_THAT(Message(CheckCertificate(*own, authority->certificate, kNow)),
              HasSubstr("do not belong together"));
}

TEST(CertificateTest, NamesCannotBringMoreNames) {
  const auto authority = MakeAuthority(Around(kNow));
  for (const char* name : {"", "a,DNS:b", "a b", ".a", "-a", "a/../b", "ü"}) {
    EXPECT_EQ(IssueCertificate(*authority, name, Around(kNow)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_FALSE(
      IssueCertificate(*authority, std::string(64, 'a'), Around(kNow)).ok());
}

TEST(CertificateTest, ACertificateTellsTheRightsOfItsHolder) {
  const auto authority = MakeAuthority(Around(kNow));
  const auto node = IssueCertificate(*authority, "box", Around(kNow));
  const auto administrator = IssueCertificateWith(
      MemberRights::kAdministrator, *authority, "desk", Around(kNow));
  EXPECT_EQ(RightsOf(*ReadCertificate(node->certificate)), MemberRights::kNode);
  EXPECT_EQ(RightsOf(*ReadCertificate(administrator->certificate)),
            MemberRights::kAdministrator);
  EXPECT_TRUE(
      CheckCertificate(*administrator, authority->certificate, kNow).ok());
}

TEST(CertificateTest, NoMachineIsCalledLikeItsRights) {
  const auto authority = MakeAuthority(Around(kNow));
  for (const char* name :
       {kAdministratorName, kClusterPeerName, "Administrator.Deltafin.Cluster",
        "box.deltafin.cluster"}) {
    const auto issued = IssueCertificate(*authority, name, Around(kNow));
    EXPECT_EQ(issued.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(issued.status()), HasSubstr("the cluster's own"))
        << name;
  }
}

TEST(CertificateTest, WhatIsNoPemIsRefused) {
  const auto authority = MakeAuthority(Around(kNow));
  EXPECT_FALSE(ReadCertificate("").ok());
  EXPECT_FALSE(ReadCertificate("-----BEGIN CERTIFICATE-----\nAAAA\n").ok());
  EXPECT_FALSE(CheckCertificate({"x", "y"}, "z", kNow).ok());
  EXPECT_FALSE(CheckCertificate(*authority, "", kNow).ok());
}

}  // namespace
}  // namespace deltafin
