// Programs that prove to each other that they are of one cluster, and all
// others refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/file_io.h"
#include "common/net/certificate.h"
#include "common/net/cluster_token.h"
#include "common/net/secret_file.h"
#include "tests/integration/secure_programs.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Words TlsFlags(const std::string& dir, const std::string& name) {
  return {"--tls-ca",   dir + "/ca.crt",
          "--tls-cert", dir + "/" + name + ".crt",
          "--tls-key",  dir + "/" + name + ".key"};
}

TEST_F(SecurityTest, OverTlsTheSameTextComesOut) {
  const std::string plain = RunDeltafinJson(kShortRun)["output_sha256"];
  const auto by_token = StartNodes({.num_nodes = 2, .flags = ours()});
  EXPECT_EQ(
      RunDeltafinJson(Join(kShortRun, Join({"--nodes", by_token->addresses()},
                                           ours())))["output_sha256"],
      plain);

  const std::string authority = dir_.File("authority");
  ASSERT_EQ(RunDeltafin({"certs", "init", authority}).exit_code, 0);
  for (const char* name : {"box-0", "box-1", "desk"}) {
    ASSERT_EQ(RunDeltafin({"certs", "issue", authority, name}).exit_code, 0);
  }
  const auto by_files =
      StartNodes({.num_nodes = 2,
                  .flags_of_node = {TlsFlags(authority, "box-0"),
                                    TlsFlags(authority, "box-1")}});
  EXPECT_EQ(RunDeltafinJson(Join(
                kShortRun, Join({"--nodes", by_files->addresses()},
                                TlsFlags(authority, "desk"))))["output_sha256"],
            plain);
}

TEST_F(SecurityTest, ACoordinatorRefusesANodeOfAnotherToken) {
  const auto nodes = StartNodes({.num_nodes = 1, .flags = theirs()});
  const ProcessResult result = RunDeltafin(
      Join(kShortRun, Join({"--nodes", nodes->addresses()}, ours())));
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, AllOf(HasSubstr(nodes->address(0)),
                                HasSubstr("no member of this cluster"),
                                HasSubstr("--cluster-token-file")));
  // gRPC names its source file: its own words are not for users.
  EXPECT_THAT(result.err, Not(HasSubstr(".cc:")));
  EXPECT_EQ(result.out, "");
}

TEST_F(SecurityTest, ANodeOfAnotherTokenDoesNotJoin) {
  const auto server = StartServer(ours());
  const std::string address = AddressOf(*server);
  const auto node = StartNode(address, theirs());
  const auto code = node->Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(node->err(), AllOf(HasSubstr(address),
                                 HasSubstr("no member of this cluster")));
}

TEST_F(SecurityTest, AServerSaysOnceWhomItRefusedAndWhy) {
  const auto nodes = StartNodes({.num_nodes = 1, .flags = ours()});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Call(Credentials().Connect(nodes->address(0), {}),
                   "/grpc.health.v1.Health/Check"),
              grpc::StatusCode::UNAVAILABLE);
  }
  ASSERT_TRUE(nodes->node(0)
                  .WaitForOutput(
                      [](std::string_view, std::string_view err) {
                        return err.find("refused a connection") != err.npos;
                      },
                      kPatience)
                  .ok());
  const std::string err = nodes->node(0).err();
  EXPECT_THAT(err, AllOf(HasSubstr("refused a connection from 127.0.0.1:"),
                         HasSubstr("it speaks plaintext")));
  EXPECT_EQ(err.find("refused a connection"),
            err.rfind("refused a connection"));
}

TEST_F(SecurityTest, ANodeWithATokenRefusesAPlaintextCoordinator) {
  const auto server = StartServer({});
  const auto node = StartNode(AddressOf(*server), ours());
  const auto code = node->Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(node->err(), HasSubstr("started without credentials"));
}

TEST_F(SecurityTest, WithoutTheTokenNoServiceOfANodeAnswers) {
  const auto nodes = StartNodes({.num_nodes = 1, .flags = ours()});
  const ProcessResult result =
      RunDeltafin(Join(kShortRun, {"--nodes", nodes->addresses()}));
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, HasSubstr("it accepts only members of its cluster"));
  for (const char* method : {"/deltafin.v1.ExpertService/GetCounters",
                             "/grpc.health.v1.Health/Check"}) {
    EXPECT_EQ(Call(Credentials().Connect(nodes->address(0), {}), method),
              grpc::StatusCode::UNAVAILABLE)
        << method;
    EXPECT_EQ(Call(OurCredentials().Connect(nodes->address(0), {}), method),
              grpc::StatusCode::OK)
        << method;
  }
}

TEST_F(SecurityTest, WithoutTheTokenNoServiceOfACoordinatorAnswers) {
  const auto server = StartServer(ours());
  const std::string address = AddressOf(*server);
  for (const char* method :
       {"/deltafin.v1.AdminService/GetHealth",
        "/deltafin.v1.InferenceService/Generate",
        "/deltafin.v1.ClusterService/Join", "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(Call(Credentials().Connect(address, {}), method),
              grpc::StatusCode::UNAVAILABLE)
        << method;
  }
  EXPECT_EQ(Call(OurCredentials().Connect(address, {}),
                 "/deltafin.v1.AdminService/GetHealth"),
            grpc::StatusCode::OK);
}

TEST_F(SecurityTest, BeyondLoopbackCredentialsAreRequired) {
  const ProcessResult serve =
      RunDeltafin({"serve", "--listen", "192.168.77.1:8500"});
  EXPECT_EQ(serve.exit_code, 64);
  EXPECT_THAT(serve.err, HasSubstr("--cluster-token-file"));
  const ProcessResult run =
      RunDeltafin(Join(kShortRun, {"--nodes", "192.168.77.1:7400"}));
  EXPECT_EQ(run.exit_code, 64);
  EXPECT_THAT(run.err, HasSubstr("refused to connect to 192.168.77.1:7400"));
  const auto node = RunProcess(
      {DeltafinNodeBinary(), "--model", NanoModelDir(), "--listen",
       "127.0.0.1:0", "--join", "192.168.77.1:8500", "--data", "unused"},
      kPatience);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->exit_code, 64);
  EXPECT_THAT(node->err,
              HasSubstr("join: refused to connect to 192.168.77.1:8500"));
}

TEST_F(SecurityTest, ExpiredAndForeignCertificatesAreRefused) {
  const std::string authority = dir_.File("authority");
  ASSERT_EQ(RunDeltafin({"certs", "init", authority}).exit_code, 0);
  ASSERT_EQ(RunDeltafin({"certs", "issue", authority, "box"}).exit_code, 0);
  const CertificateAndKey ca{*ReadFile(authority + "/ca.crt", 1 << 20),
                             *ReadFile(authority + "/ca.key", 1 << 20)};
  const absl::Time past = absl::Now() - absl::Hours(24 * 365);
  const auto expired =
      IssueCertificate(ca, "old", {past, past + absl::Hours(1)});
  ASSERT_TRUE(expired.ok()) << expired.status();
  ASSERT_TRUE(
      WriteNewFile(authority + "/old.crt", expired->certificate, 0644).ok());
  ASSERT_TRUE(WriteNewFile(authority + "/old.key", expired->key, 0600).ok());
  const ProcessResult old = RunDeltafin(Join(
      kShortRun, Join({"--nodes", "127.0.0.1:1"}, TlsFlags(authority, "old"))));
  EXPECT_EQ(old.exit_code, 65);
  EXPECT_THAT(old.err, AllOf(HasSubstr("old.crt"), HasSubstr("has expired"),
                             HasSubstr("certs issue")));

  const std::string foreign = dir_.File("foreign");
  ASSERT_EQ(RunDeltafin({"certs", "init", foreign}).exit_code, 0);
  ASSERT_EQ(RunDeltafin({"certs", "issue", foreign, "box"}).exit_code, 0);
  const auto nodes =
      StartNodes({.num_nodes = 1, .flags = TlsFlags(foreign, "box")});
  const ProcessResult result =
      RunDeltafin(Join(kShortRun, Join({"--nodes", nodes->addresses()},
                                       TlsFlags(authority, "box"))));
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, HasSubstr("is of another authority"));
}

// A node and a sharing node with certificates of their own, in service.
class RightsTest : public SecurityTest {
 protected:
  void SetUp() override {
    authority_ = dir_.File("authority");
    ASSERT_EQ(RunDeltafin({"certs", "init", authority_}).exit_code, 0);
    for (const Words& who : {Words{"box"}, Words{"desk", "--administrator"}}) {
      const Words issue = Join({"certs", "issue", authority_}, who);
      ASSERT_EQ(RunDeltafin(issue).exit_code, 0);
    }
    server_ = StartServer(
        Join({"--heartbeat-ms", "200", "--gone-after-ms", "1500"}, Of("box")));
    address_ = AddressOf(*server_);
    node_ = StartNode(address_, Of("box"));
    sharing_ =
        StartProgram(Join({DeltafinNodeBinary(), "--listen", "127.0.0.1:0",
                           "--join", address_, "--data", dir_.File("sharing")},
                          Of("box")));
    for (Process* node : {node_.get(), sharing_.get()}) {
      const absl::Status joined = node->WaitForOutput(
          [](std::string_view, std::string_view err) {
            return err.find("joined the cluster") != err.npos;
          },
          kPatience);
      ASSERT_TRUE(joined.ok()) << joined << node->err();
    }
  }

  Words Of(const std::string& name) const { return TlsFlags(authority_, name); }
  ProcessResult Ask(const std::string& who, const Words& command) {
    return RunDeltafin(Join(command, Of(who)));
  }

  std::string authority_;
  std::string address_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> node_;
  std::unique_ptr<Process> sharing_;
};

TEST_F(RightsTest, ANodesCertificateJoinsAndCopiesButChangesNothing) {
  // Its share came with the certificate of a node.
  const absl::Status filled = sharing_->WaitForOutput(
      [](std::string_view, std::string_view err) {
        return err.find("holds its whole share of the model") != err.npos;
      },
      kPatience);
  ASSERT_TRUE(filled.ok()) << filled << sharing_->err();
  const std::string holder = AddressOf(*sharing_);
  const Words drain{"drain", holder, "--coordinator", address_};
  const Words quota{"experts", "quota", "1G", "--node", holder};
  for (const Words& command :
       {drain, Join(drain, {"--undo"}), quota,
        Words{"experts", "remove", "3:4", "--node", holder},
        Words{"experts", "fetch", "3:4", "--node", holder}}) {
    const ProcessResult refused = Ask("box", command);
    EXPECT_EQ(refused.exit_code, 65) << refused.out;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("is for administrators"), HasSubstr("'box'"),
                      HasSubstr("certs issue AUTHORITY NAME --administrator")));
  }
  EXPECT_EQ(Ask("box", {"health", "--coordinator", address_}).exit_code, 0);
  const ProcessResult storage =
      Ask("box", {"experts", "show", "--node", holder});
  EXPECT_EQ(storage.exit_code, 0) << storage.err;
  EXPECT_EQ(Ask("desk", quota).exit_code, 0);
  const ProcessResult drained = Ask("desk", drain);
  EXPECT_EQ(drained.exit_code, 0) << drained.err;
  EXPECT_THAT(drained.out, HasSubstr("may be switched off"));
}

TEST_F(RightsTest, MethodsThatNobodyKnowsAreRefusedToNodes) {
  const auto load = [this](const std::string& name) {
    const std::string stem = authority_ + "/" + name;
    return *Credentials::Load(
        {"", authority_ + "/ca.crt", stem + ".crt", stem + ".key"},
        absl::Now());
  };
  const auto node = load("box").Connect(address_, {});
  const auto administrator = load("desk").Connect(address_, {});
  EXPECT_EQ(Call(node, "/deltafin.v1.AdminService/Erase"),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(administrator, "/deltafin.v1.AdminService/Erase"),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call(node, "/deltafin.v1.AdminService/Drain"),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(node, "/deltafin.v1.AdminService/GetHealth"),
            grpc::StatusCode::OK);
  EXPECT_EQ(Call(node, "/grpc.health.v1.Health/Check"), grpc::StatusCode::OK);
}

TEST_F(SecurityTest, ATokenThatOthersMayReadEndsTheProgram) {
  ASSERT_EQ(chmod(dir_.File("ours").c_str(), 0644), 0);
  const ProcessResult result =
      RunDeltafin(Join(kShortRun, Join({"--nodes", "127.0.0.1:1"}, ours())));
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("chmod 600"));
}

// All that other processes and logs can see of a program.
std::string VisibleOf(Process& process) {
  std::string all = process.out() + process.err();
  for (const char* file : {"cmdline", "environ"}) {
    const FileDescriptor fd =
        *OpenForReading(absl::StrCat("/proc/", process.pid(), "/", file));
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd.get(), buffer, sizeof(buffer))) > 0) {
      all.append(buffer, static_cast<size_t>(got));
    }
  }
  return all;
}

TEST_F(SecurityTest, NoSecretIsInLogsOrArguments) {
  const ProcessOptions loud{
      "", {"GRPC_VERBOSITY=DEBUG", "GRPC_TRACE=tsi,handshaker,http"}};
  const Words flags = Join(ours(), {"--log-level", "trace"});
  const auto server = StartProgram(
      Join({DeltafinBinary(), "serve", "--listen", "127.0.0.1:0", "--cluster"},
           flags),
      loud);
  const std::string address = AddressOf(*server);
  const auto node = StartProgram(
      Join({DeltafinNodeBinary(), "--model", NanoModelDir(), "--listen",
            "127.0.0.1:0", "--join", address, "--data", dir_.File("node")},
           flags),
      loud);
  ASSERT_TRUE(node->WaitForOutput(
                      [](std::string_view, std::string_view err) {
                        return err.find("joined the cluster") !=
                               std::string_view::npos;
                      },
                      kPatience)
                  .ok());
  EXPECT_NE(Call(Credentials().Connect(address, {}), "/x/y"),
            grpc::StatusCode::OK);
  const std::string token = ReadFile(dir_.File("ours"), 100)->substr(0, 64);
  const auto tokens = ParseClusterTokens(token);
  const std::string authority = AuthorityOfSecret(tokens->front())->key;
  const size_t body = authority.find('\n') + 1;
  for (Process* process : {server.get(), node.get()}) {
    const std::string visible = VisibleOf(*process);
    EXPECT_THAT(visible, HasSubstr("--cluster-token-file"));
    EXPECT_THAT(visible, HasSubstr("grpc: "));
    EXPECT_EQ(visible.find(token), std::string::npos);
    EXPECT_EQ(visible.find(token.substr(0, 16)), std::string::npos);
    EXPECT_EQ(visible.find(std::string(
                  reinterpret_cast<const char*>(tokens->front().data()), 32)),
              std::string::npos);
    EXPECT_EQ(visible.find(authority.substr(body, 40)), std::string::npos);
    EXPECT_EQ(visible.find("PRIVATE KEY"), std::string::npos);
  }
}

}  // namespace
}  // namespace deltafin::testing
