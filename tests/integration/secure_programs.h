// tests/integration/secure_programs.h
//
// Programs with a cluster token, for tests of who may talk to whom.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/net/credentials.h"
#include "tests/integration/deltafin_program.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {

inline constexpr absl::Duration kPatience = absl::Minutes(1);

inline const Words kShortRun{"run", "--prompt", "It was a dark",
                             "--max-new-tokens", "12"};

inline Words TokenFlags(const std::string& path) {
  return {"--cluster-token-file", path};
}

inline std::unique_ptr<Process> StartProgram(
    const Words& words, const ProcessOptions& options = {}) {
  auto process = Process::Start(words, options);
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

inline std::string AddressOf(Process& process) {
  const auto address = WaitForAddress(process);
  EXPECT_TRUE(address.ok()) << address.status();
  return address.ok() ? *address : "";
}

class SecurityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"ours", "theirs"}) {
      ASSERT_EQ(RunDeltafin({"certs", "token", dir_.File(name)}).exit_code, 0);
    }
  }

  std::unique_ptr<MiniCluster> StartNodes(MiniClusterOptions options) {
    auto cluster = MiniCluster::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return *std::move(cluster);
  }

  std::unique_ptr<Process> StartServer(const Words& flags) {
    return StartProgram(Join(
        {DeltafinBinary(), "serve", "--listen", "127.0.0.1:0", "--cluster"},
        flags));
  }

  std::unique_ptr<Process> StartNode(const std::string& coordinator,
                                     const Words& flags) {
    return StartProgram(Join(
        {DeltafinNodeBinary(), "--model", NanoModelDir(), "--listen",
         "127.0.0.1:0", "--join", coordinator, "--data", dir_.File("node")},
        flags));
  }

  Words ours() const { return TokenFlags(dir_.File("ours")); }
  Words theirs() const { return TokenFlags(dir_.File("theirs")); }
  Credentials OurCredentials() const {
    return *Credentials::Load({dir_.File("ours"), "", "", ""}, absl::Now());
  }

  TempDir dir_;
};

// Calls a method with an empty message.
inline grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const auto call = stub.PrepareUnaryCall(
      &context, method, grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.error_code();
}

}  // namespace deltafin::testing
