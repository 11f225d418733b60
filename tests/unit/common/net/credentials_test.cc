#include "common/net/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/net/cluster_token.h"
#include "common/net/grpc_status.h"
#include "common/net/secret_file.h"
#include "common/net/server_lifecycle.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Validity Around(absl::Time middle) {
  return {middle - absl::Hours(24), middle + absl::Hours(24)};
}

// Files as `deltafin certs` and other hands make them.
class CredentialsTest : public ::testing::Test {
 protected:
  // A token's credentials; the same name gives the same token.
  Credentials Token(const std::string& name) {
    const std::string path = dir_.File(name);
    MakeClusterTokenFile(path).IgnoreError();  // it may be there
    auto credentials = Credentials::Load({path, "", "", ""}, absl::Now());
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }

  // Writes files of a machine that trusts `roots`, certified by `authority`.
  CredentialFiles Files(const CertificateAndKey& authority,
                        const std::string& roots, const Validity& validity) {
    const auto own = IssueCertificate(authority, "box", validity);
    EXPECT_TRUE(own.ok()) << own.status();
    const std::string stem = dir_.File("files" + std::to_string(++serial_));
    EXPECT_TRUE(WriteNewFile(stem + ".ca", roots, kPublicMode).ok());
    EXPECT_TRUE(WriteNewFile(stem + ".crt", own->certificate, 0644).ok());
    EXPECT_TRUE(WriteNewFile(stem + ".key", own->key, kSecretMode).ok());
    return {"", stem + ".ca", stem + ".crt", stem + ".key"};
  }

  Credentials LoadAt(const CredentialFiles& files, absl::Time now) {
    auto credentials = Credentials::Load(files, now);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }

  CertificateAndKey Authority() { return *MakeAuthority(UnlimitedValidity()); }

  TempDir dir_;
  int serial_ = 0;
};

// Asks the health service of a server with credentials `theirs`.
absl::Status Ask(const Credentials& ours, const Credentials& theirs) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.credentials = theirs;
  const auto server = ServerLifecycle::Start(options, {});
  if (!server.ok()) return server.status();
  grpc::GenericStub stub(ours.Connect((*server)->address(), {}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                            grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return ExplainConnection(FromGrpc(status));
}

const absl::Time kPast = absl::FromUnixSeconds(1'000'000'000);

TEST_F(CredentialsTest, HoldersOfOneTokenTalk) {
  EXPECT_EQ(Ask(Token("ours"), Token("ours")), absl::OkStatus());
}

TEST_F(CredentialsTest, MachinesOfOneAuthorityTalk) {
  const auto authority = Authority();
  const auto load = [&] {
    return LoadAt(Files(authority, authority.certificate, Around(absl::Now())),
                  absl::Now());
  };
  EXPECT_EQ(Ask(load(), load()), absl::OkStatus());
}

TEST_F(CredentialsTest, AnotherTokenIsRefusedWithWhatToDo) {
  const absl::Status status = Ask(Token("ours"), Token("theirs"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no member of this cluster"),
                    HasSubstr("--cluster-token-file")));
}

TEST_F(CredentialsTest, ATokenAddedToTheFileIsAcceptedBesideTheFirst) {
  const Credentials newer = Token("new");
  const Credentials older = Token("old");
  const std::string old_text = *ReadSecretFile(dir_.File("old"), 4096);
  const std::string new_text = *ReadSecretFile(dir_.File("new"), 4096);
  ASSERT_TRUE(
      WriteNewFile(dir_.File("both"), old_text + new_text, kSecretMode).ok());
  const Credentials both = Token("both");
  EXPECT_EQ(Ask(both, older), absl::OkStatus());
  EXPECT_EQ(Ask(older, both), absl::OkStatus());
  // It shows the first one, which those with the new one alone do not know.
  EXPECT_FALSE(Ask(newer, both).ok());
}

TEST_F(CredentialsTest, AnExpiredServerIsRefused) {
  const auto authority = Authority();
  const auto old =
      LoadAt(Files(authority, authority.certificate, Around(kPast)), kPast);
  const auto good =
      LoadAt(Files(authority, authority.certificate, Around(absl::Now())),
             absl::Now());
  const absl::Status status = Ask(good, old);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has expired"));
}

TEST_F(CredentialsTest, AnExpiredClientIsRefused) {
  const auto authority = Authority();
  const auto old =
      LoadAt(Files(authority, authority.certificate, Around(kPast)), kPast);
  const auto good =
      LoadAt(Files(authority, authority.certificate, Around(absl::Now())),
             absl::Now());
  const absl::Status status = Ask(old, good);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has not expired"));
}

TEST_F(CredentialsTest, AClientOfAForeignAuthorityIsRefused) {
  const auto ours = Authority();
  const auto foreign = Authority();
  const auto server =
      LoadAt(Files(ours, ours.certificate, Around(absl::Now())), absl::Now());
  const auto client =
      LoadAt(Files(foreign, ours.certificate + foreign.certificate,
                   Around(absl::Now())),
             absl::Now());
  EXPECT_THAT(std::string(Ask(client, server).message()),
              HasSubstr("it accepts only members of its cluster"));
}

TEST_F(CredentialsTest, PlaintextAndTlsDoNotMix) {
  const Credentials token = Token("ours");
  const absl::Status plain_client = Ask({}, token);
  EXPECT_EQ(plain_client.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(plain_client.message()),
              HasSubstr("give this program its --cluster-token-file"));
  const absl::Status plain_server = Ask(token, {});
  EXPECT_EQ(plain_server.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(plain_server.message()),
              HasSubstr("started without credentials"));
}

TEST_F(CredentialsTest, OwnExpiredCertificateIsRefusedAtTheStart) {
  const auto authority = Authority();
  const auto credentials = Credentials::Load(
      Files(authority, authority.certificate, Around(kPast)), absl::Now());
  EXPECT_EQ(credentials.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(credentials.status().message()),
              AllOf(HasSubstr(".crt"), HasSubstr("has expired"),
                    HasSubstr("2001-09-10"), HasSubstr("certs issue")));
}

TEST_F(CredentialsTest, AKeyOthersMayReadIsRefused) {
  const auto authority = Authority();
  const CredentialFiles files =
      Files(authority, authority.certificate, Around(absl::Now()));
  ASSERT_EQ(chmod(files.tls_key.c_str(), 0640), 0);
  const auto credentials = Credentials::Load(files, absl::Now());
  EXPECT_EQ(credentials.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(credentials.status().message()),
              AllOf(HasSubstr(files.tls_key), HasSubstr("0640"),
                    HasSubstr("chmod 600")));
}

// A list that names the service's user shows as the group's right.
TEST_F(CredentialsTest, WhatSystemdHandsAServiceIsTaken) {
  if (geteuid() != 0) GTEST_SKIP() << "needs files of root";
  const std::string path = dir_.File("token");
  ASSERT_TRUE(MakeClusterTokenFile(path).ok());
  for (const auto& [mode, is_taken] :
       std::vector<std::pair<mode_t, bool>>{{0400, true},
                                            {0440, true},
                                            {0444, false},
                                            {0640, false},
                                            {0460, false},
                                            {0441, false}}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(ReadSecretFile(path, 4096).ok(), is_taken) << mode;
  }
  ASSERT_EQ(chmod(path.c_str(), 0440), 0);
  ASSERT_EQ(chown(path.c_str(), 0, 100), 0);
  EXPECT_FALSE(ReadSecretFile(path, 4096).ok());
}

TEST_F(CredentialsTest, FilesThatDoNotGoTogetherAreRefused) {
  EXPECT_FALSE((CredentialFiles{"token", "ca", "", ""}.Check().ok()));
  EXPECT_FALSE((CredentialFiles{"", "ca", "crt", ""}.Check().ok()));
  EXPECT_TRUE((CredentialFiles{"", "ca", "crt", "key"}.Check().ok()));
  EXPECT_TRUE(CredentialFiles{}.Check().ok());
  EXPECT_FALSE(CredentialFiles{}.any());
}

TEST_F(CredentialsTest, PlaintextStaysOnLoopback) {
  for (const char* host : {"127.0.0.1", "::1", "localhost"}) {
    EXPECT_TRUE(RequireProtected("listen on", {host, 1}, true).ok()) << host;
  }
  const absl::Status status =
      RequireProtected("listen on", {"192.168.1.5", 7400}, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("refused to listen on 192.168.1.5:7400"),
                    HasSubstr("--cluster-token-file")));
  EXPECT_TRUE(RequireProtected("listen on", {"192.168.1.5", 7400}, false).ok());
}

}  // namespace
}  // namespace deltafin
