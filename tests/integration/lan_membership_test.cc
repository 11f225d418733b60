// A cluster on a LAN in a box whose nodes join: placements that change under a
// generation and a coordinator that starts again never show in a text. Needs
// root.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "proto/admin.grpc.pb.h"
#include "proto/inference.grpc.pb.h"
#include "tests/integration/lan_case.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::Not;

constexpr int kTokens = 40;
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

class LanMembershipTest : public ::testing::TestWithParam<LanProfile> {
 protected:
  void SetUp() override {
    const absl::Status possible = LanBox::Possible();
    if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
    // Slow enough that disturbances come between tokens.
    auto cluster = LanCluster::Start(GetParam(), kLanNodes,
                                     {"--test-reply-delay-us", "2000:7"},
                                     LanMembers::kJoining);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    StartServer();
  }

  void StartServer() {
    auto server = cluster_->StartServer();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto line = cluster_->CallServer();
    ASSERT_TRUE(line.ok()) << line.status();
    line_ = *std::move(line);
    admin_ = v1::AdminService::NewStub(line_.channel);
  }

  v1::ClusterHealth Health() {
    grpc::ClientContext context;
    context.set_deadline(Soon());
    v1::ClusterHealth health;
    const grpc::Status status = admin_->GetHealth(&context, {}, &health);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return health;
  }

  // Until all nodes serve.
  v1::ClusterHealth WaitForAll() {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      const v1::ClusterHealth health = Health();
      const auto serving = std::count_if(
          health.nodes().begin(), health.nodes().end(),
          [](const v1::NodeHealth& node) { return node.state() == "serving"; });
      if (serving == kLanNodes && health.nodes_size() == kLanNodes) {
        return health;
      }
      absl::SleepFor(absl::Milliseconds(50));
    }
    ADD_FAILURE() << "not all serve: " << Health().DebugString();
    return {};
  }

  // Generates and calls `at_token` with the number of tokens that have come.
  grpc::Status Generate(int num_tokens, Json* ids,
                        const std::function<void(int)>& at_token = nullptr) {
    const auto stub = v1::InferenceService::NewStub(line_.channel);
    grpc::ClientContext context;
    context.set_deadline(Soon());
    const auto reader = stub->Generate(&context, Request(num_tokens));
    *ids = Json::array();
    v1::GenerateReply reply;
    while (reader->Read(&reply)) {
      if (!reply.has_token()) continue;
      ids->push_back(reply.id());
      if (at_token) at_token(static_cast<int>(ids->size()));
    }
    return reader->Finish();
  }

  void ExpectUndisturbed(const std::function<void(int)>& at_token = nullptr) {
    Json ids;
    const grpc::Status status = Generate(kTokens, &ids, at_token);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(ids, UndisturbedReport(ShortLanPrompt(kTokens))["output_ids"]);
  }

  // Changes the placement at once; does not wait for the drain's end.
  void Drain(const std::string& node, bool undo) {
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

  std::unique_ptr<LanCluster> cluster_;
  std::unique_ptr<Process> server_;
  LanCluster::Line line_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

std::string NameOf(const ::testing::TestParamInfo<LanProfile>& info) {
  return LanProfileName(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, LanMembershipTest,
                         ::testing::Values(LanProfile::kLan, LanProfile::kFast,
                                           LanProfile::kLoopback),
                         NameOf);

TEST_P(LanMembershipTest, ANewPlacementAfterEveryTokenDoesNotShow) {
  const v1::ClusterHealth before = WaitForAll();
  int changes = 0;
  ExpectUndisturbed([&](int tokens) {
    Drain(cluster_->address(tokens / 2 % kLanNodes), tokens % 2 == 1);
    ++changes;
  });
  EXPECT_EQ(changes, kTokens);
  // The first token takes back a drain that never was; all others change it.
  EXPECT_GE(Health().epoch(), before.epoch() + kTokens - 1);
}

TEST_P(LanMembershipTest, ANodeThatComesBackFromAnOlderEpochDoesNotShow) {
  const v1::ClusterHealth before = WaitForAll();
  const std::string file = cluster_->DataFolderOf(1) + "/epoch";
  ExpectUndisturbed([&](int tokens) {
    if (tokens != 10) return;
    cluster_->node(1).Signal(SIGKILL);
    ASSERT_TRUE(cluster_->node(1).Wait(kPatience).ok());
    ASSERT_TRUE(WriteFileAtomically(file, "1\n").ok());
    ASSERT_TRUE(cluster_->Restart(1).ok());
  });
  const v1::ClusterHealth after = WaitForAll();
  EXPECT_GT(after.epoch(), before.epoch());
  ExpectUndisturbed();
  EXPECT_GT(*cluster_->LayerRequests(1), 0);
  const absl::Time deadline = absl::Now() + kPatience;
  while (std::stoull(*ReadFile(file, 100)) < after.epoch()) {
    ASSERT_LT(absl::Now(), deadline) << *ReadFile(file, 100);
    absl::SleepFor(absl::Milliseconds(50));
  }
}

TEST_P(LanMembershipTest, ACoordinatorThatStartsAgainHasItsNodesBack) {
  const v1::ClusterHealth before = WaitForAll();
  Json ids;
  const grpc::Status status = Generate(2000, &ids, [&](int tokens) {
    if (tokens == 10) server_->Signal(SIGKILL);
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), Not(::testing::IsEmpty()));
  EXPECT_LT(ids.size(), 2000u);
  ASSERT_TRUE(server_->Wait(kPatience).ok());
  StartServer();
  const v1::ClusterHealth after = WaitForAll();
  EXPECT_GT(after.epoch(), before.epoch());
  EXPECT_EQ(after.coordinator_id(), before.coordinator_id());
  ExpectUndisturbed();
}

}  // namespace
}  // namespace deltafin::testing
