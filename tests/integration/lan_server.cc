#include "tests/integration/lan_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "proto/inference.grpc.pb.h"
#include "tests/integration/lan_case.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

std::chrono::system_clock::time_point Soon() {
  return std::chrono::system_clock::now() + std::chrono::minutes(1);
}

// ShortLanPrompt, asked of a server.
v1::GenerateRequest Request(int num_tokens) {
  v1::GenerateRequest request;
  for (const uint32_t id : {1063u, 315u}) request.mutable_ids()->add_ids(id);
  request.set_max_new_tokens(num_tokens);
  request.set_ignore_eos(true);
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanServer>> LanServer::Start(
    LanCluster& cluster, const Words& flags, const ProcessOptions& options) {
  std::unique_ptr<LanServer> server(new LanServer());
  server->cluster_ = &cluster;
  ASSIGN_OR_RETURN(server->process_, cluster.StartServer(flags, options));
  ASSIGN_OR_RETURN(server->line_, cluster.CallServer());
  server->admin_ = v1::AdminService::NewStub(server->line_.channel);
  return server;
}

v1::ClusterHealth LanServer::Health() {
  grpc::ClientContext context;
  context.set_deadline(Soon());
  v1::ClusterHealth health;
  const grpc::Status status = admin_->GetHealth(&context, {}, &health);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return health;
}

v1::PlacementReport LanServer::Placement() {
  grpc::ClientContext context;
  context.set_deadline(Soon());
  v1::PlacementReport report;
  const grpc::Status status = admin_->GetPlacement(&context, {}, &report);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return report;
}

v1::ClusterHealth LanServer::WaitForAll() {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    v1::ClusterHealth health = Health();
    const auto serving = std::count_if(
        health.nodes().begin(), health.nodes().end(),
        [](const v1::NodeHealth& node) { return node.state() == "serving"; });
    if (serving == cluster_->num_nodes() && health.nodes_size() == serving) {
      return health;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  ADD_FAILURE() << "not all serve: " << Health().DebugString();
  return {};
}

grpc::Status LanServer::Generate(int num_tokens, nlohmann::json* ids,
                                 const std::function<void(int)>& at_token) {
  const auto stub = v1::InferenceService::NewStub(line_.channel);
  grpc::ClientContext context;
  context.set_deadline(Soon());
  const auto reader = stub->Generate(&context, Request(num_tokens));
  *ids = nlohmann::json::array();
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (!reply.has_token()) continue;
    ids->push_back(reply.id());
    if (at_token) at_token(static_cast<int>(ids->size()));
  }
  return reader->Finish();
}

void LanServer::ExpectUndisturbed(int num_tokens,
                                  const std::function<void(int)>& at_token) {
  nlohmann::json ids;
  const grpc::Status status = Generate(num_tokens, &ids, at_token);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(ids, UndisturbedReport(ShortLanPrompt(num_tokens))["output_ids"]);
}

void LanServer::BeginDrain(const std::string& node, bool undo) {
  grpc::ClientContext context;
  context.set_deadline(Soon());
  v1::DrainRequest request;
  request.set_node(node);
  request.set_undo(undo);
  const auto reader = admin_->Drain(&context, request);
  v1::DrainProgress progress;
  EXPECT_TRUE(reader->Read(&progress)) << reader->Finish().error_message();
  context.TryCancel();
  reader->Finish();
}

void LanServer::Drain(const std::string& node) {
  grpc::ClientContext context;
  context.set_deadline(Soon());
  v1::DrainRequest request;
  request.set_node(node);
  const auto reader = admin_->Drain(&context, request);
  v1::DrainProgress progress;
  while (reader->Read(&progress)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(progress.done()) << progress.DebugString();
}

}  // namespace deltafin::testing
