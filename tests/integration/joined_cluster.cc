#include "tests/integration/joined_cluster.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "absl/time/clock.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr absl::Duration kAskAgain = absl::Milliseconds(50);

std::chrono::system_clock::time_point Soon() {
  return std::chrono::system_clock::now() + std::chrono::seconds(10);
}

}  // namespace

JoinedCluster::JoinedCluster(const Words& serve_flags,
                             const ProcessOptions& server)
    : serve_flags_(
          Join({"--cluster", "--state", dir_.File("state")}, serve_flags)),
      server_options_(server),
      server_(std::make_unique<ServeProcess>(serve_flags_, "127.0.0.1:0",
                                             server)) {}

void JoinedCluster::RestartServer() {
  const std::string address = server_->address();
  server_->process().Signal(SIGTERM);
  const auto code = server_->process().Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  server_ =
      std::make_unique<ServeProcess>(serve_flags_, address, server_options_);
}

std::string JoinedCluster::FolderOf(const std::string& name) const {
  return dir_.File(name);
}

void JoinedCluster::StartNode(const std::string& name, const Words& flags) {
  Run(name, Join({"--model", NanoModelDir()}, flags));
}

void JoinedCluster::StartSharingNode(const std::string& name,
                                     const Words& flags) {
  Run(name, flags);
}

void JoinedCluster::Run(const std::string& name, const Words& flags) {
  auto process = Process::Start(
      Join({DeltafinNodeBinary(), "--listen", "127.0.0.1:0", "--threads", "1",
            "--test-kernel-rate", "4", "--join", server_->address(), "--data",
            FolderOf(name)},
           flags));
  ASSERT_TRUE(process.ok()) << process.status();
  const auto is_it = [&name](const Node& node) { return node.name == name; };
  nodes_.erase(std::remove_if(nodes_.begin(), nodes_.end(), is_it),
               nodes_.end());
  nodes_.push_back({name, *std::move(process)});
}

void JoinedCluster::WipeNode(const std::string& name) {
  std::filesystem::remove_all(FolderOf(name));
}

void JoinedCluster::KillNode(const std::string& name) {
  node(name).Signal(SIGKILL);
  EXPECT_TRUE(node(name).Wait(kPatience).ok());
}

void JoinedCluster::StopNode(const std::string& name) {
  node(name).Signal(SIGTERM);
  const auto code = node(name).Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << node(name).err();
}

Process& JoinedCluster::node(const std::string& name) {
  return *std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) {
            return node.name == name;
          })->process;
}

v1::ClusterHealth JoinedCluster::Health() {
  const auto stub = v1::AdminService::NewStub(grpc::CreateChannel(
      server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(Soon());
  v1::ClusterHealth health;
  const grpc::Status status = stub->GetHealth(&context, {}, &health);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return health;
}

v1::ClusterHealth JoinedCluster::WaitForHealth(
    const std::function<bool(const v1::ClusterHealth&)>& accept) {
  const absl::Time deadline = absl::Now() + kPatience;
  v1::ClusterHealth health = Health();
  while (!accept(health) && absl::Now() < deadline) {
    absl::SleepFor(kAskAgain);
    health = Health();
  }
  EXPECT_TRUE(accept(health)) << health.DebugString();
  return health;
}

v1::ClusterHealth JoinedCluster::WaitForServing(int num_serving) {
  return WaitForHealth([num_serving](const v1::ClusterHealth& health) {
    return health.nodes_size() == num_serving &&
           std::all_of(health.nodes().begin(), health.nodes().end(),
                       [](const v1::NodeHealth& node) {
                         return node.state() == "serving";
                       });
  });
}

// HealthCheckRequest has the service's name in field 1, HealthCheckResponse the
// status in field 1; 1 is SERVING.
bool JoinedCluster::IsServing() {
  const std::string name = "deltafin.v1.InferenceService";
  const std::string request =
      std::string("\x0a") + static_cast<char>(name.size()) + name;
  grpc::GenericStub stub(grpc::CreateChannel(
      server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(Soon());
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(
      &context, "/grpc.health.v1.Health/Check", message, &queue);
  call->StartCall();
  grpc::Status status;
  void* tag = nullptr;
  call->Finish(&reply, &status, &tag);
  bool ok = false;
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice bytes;
  return reply.DumpToSingleSlice(&bytes).ok() && bytes.size() == 2 &&
         bytes.begin()[1] == 1;
}

}  // namespace deltafin::testing
