// A cluster whose nodes join, die, come back and leave, as real processes.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "common/base/file_io.h"
#include "tests/integration/joined_cluster.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr uint32_t kTokens = 300;

v1::GenerateRequest Request() {
  v1::GenerateRequest request = IdsRequest({3, 14, 159, 265}, kTokens);
  request.set_ignore_eos(true);
  return request;
}

// What one process without nodes writes.
const Json& AloneIds() {
  static const Json ids =
      RunDeltafinJson({"run", "--prompt-ids", "3,14,159,265",
                       "--max-new-tokens", std::to_string(kTokens),
                       "--ignore-eos", "--log-level", "warn"})["output_ids"];
  return ids;
}

// Generates, and calls `at_tenth` when ten tokens have come.
Json GenerateIds(ServeProcess& server,
                 const std::function<void()>& at_tenth = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(3));
  const auto reader = server.stub().Generate(&context, Request());
  std::vector<uint32_t> ids;
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_token()) ids.push_back(reply.id());
    if (ids.size() == 10 && reply.has_token() && at_tenth) at_tenth();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return ids;
}

std::set<std::string> IdsOf(const v1::ClusterHealth& health) {
  std::set<std::string> ids;
  for (const v1::NodeHealth& node : health.nodes()) ids.insert(node.node_id());
  return ids;
}

// The node id that a data folder keeps.
std::string IdIn(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(folder + "/node_id", 100);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

TEST(ClusterTest, ANodeThatDiesShowsInNoTextAndComesBackAsItself) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.StartNode("b");
  const v1::ClusterHealth before = cluster.WaitForServing(2);
  EXPECT_EQ(before.verdict(), v1::ClusterHealth::HEALTHY) << before.reason();
  EXPECT_EQ(before.copies_least(), 2u);
  EXPECT_NEAR(before.nodes(0).share() + before.nodes(1).share(), 1, 1e-9);
  EXPECT_GT(before.nodes(0).capacity().disk_bytes(), 0u);
  EXPECT_GT(before.nodes(0).capacity().memory_bytes(), 0u);
  EXPECT_GT(before.nodes(0).load().owned_slices(), 0u);
  EXPECT_EQ(GenerateIds(cluster.server()), AloneIds());

  EXPECT_EQ(GenerateIds(cluster.server(), [&] { cluster.KillNode("a"); }),
            AloneIds());
  const v1::ClusterHealth without =
      cluster.WaitForHealth([](const v1::ClusterHealth& health) {
        return std::any_of(
            health.nodes().begin(), health.nodes().end(),
            [](const v1::NodeHealth& node) { return node.state() == "gone"; });
      });
  EXPECT_EQ(without.verdict(), v1::ClusterHealth::DEGRADED);
  EXPECT_THAT(without.reason(), HasSubstr("is gone"));

  cluster.StartNode("a");
  const v1::ClusterHealth after = cluster.WaitForServing(2);
  EXPECT_EQ(IdsOf(after), IdsOf(before));
  EXPECT_GT(after.epoch(), without.epoch());
  EXPECT_EQ(GenerateIds(cluster.server()), AloneIds());
}

TEST(ClusterTest, NodesComeBackToACoordinatorThatWasRestarted) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.StartNode("b");
  const v1::ClusterHealth before = cluster.WaitForServing(2);
  cluster.RestartServer();
  const v1::ClusterHealth after = cluster.WaitForServing(2);
  EXPECT_EQ(IdsOf(after), IdsOf(before));
  EXPECT_EQ(after.coordinator_id(), before.coordinator_id());
  EXPECT_GT(after.epoch(), before.epoch());
  EXPECT_EQ(GenerateIds(cluster.server()), AloneIds());
}

TEST(ClusterTest, TheListIsTheLiveSetWhateverIsRestarted) {
  JoinedCluster cluster;
  cluster.StartNode("kept");
  cluster.StartNode("wiped");
  std::set<std::string> before = IdsOf(cluster.WaitForServing(2));
  const std::string kept_id = IdIn(cluster.FolderOf("kept"));
  for (int round = 0; round < 5; ++round) {
    cluster.KillNode("kept");
    cluster.KillNode("wiped");
    cluster.WipeNode("wiped");
    cluster.StartNode("kept");
    cluster.StartNode("wiped");
    const v1::ClusterHealth health =
        cluster.WaitForHealth([&](const v1::ClusterHealth& health) {
          return health.nodes_size() == 2 && IdsOf(health) != before &&
                 health.verdict() == v1::ClusterHealth::HEALTHY;
        });
    before = IdsOf(health);
    EXPECT_EQ(before, (std::set<std::string>{kept_id,
                                             IdIn(cluster.FolderOf("wiped"))}));
  }
  cluster.StopNode("wiped");
  EXPECT_EQ(cluster.WaitForServing(1).nodes(0).node_id(), kept_id);
}

TEST(ClusterTest, WithoutNodesItIsDownAndStillAnswers) {
  JoinedCluster cluster;
  const v1::ClusterHealth alone = cluster.Health();
  EXPECT_EQ(alone.verdict(), v1::ClusterHealth::DOWN);
  EXPECT_EQ(alone.nodes_size(), 0);
  EXPECT_FALSE(cluster.IsServing());
  cluster.StartNode("a");
  EXPECT_EQ(cluster.WaitForServing(1).verdict(), v1::ClusterHealth::HEALTHY);
  cluster.WaitForHealth(
      [&](const v1::ClusterHealth&) { return cluster.IsServing(); });
  cluster.StopNode("a");
  cluster.WaitForHealth(
      [&](const v1::ClusterHealth&) { return !cluster.IsServing(); });
  EXPECT_EQ(cluster.Health().nodes_size(), 0);
}

TEST(ClusterTest, ANodeOfAnotherModelIsRefusedWithBothDigests) {
  JoinedCluster cluster;
  const TempDir dir;
  MakeTinyModel(dir.File("tiny"), 1, {});
  const auto result =
      RunProcess({DeltafinNodeBinary(), "--model", dir.File("tiny"), "--listen",
                  "127.0.0.1:0", "--join", cluster.server().address(), "--data",
                  dir.File("data")},
                 absl::Minutes(1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 69);
  EXPECT_THAT(result->err, HasSubstr("manifest digest"));
  EXPECT_THAT(result->err, HasSubstr("start both from the same model"));
}

TEST(ClusterTest, ADataFolderInUseNamesItsHolder) {
  JoinedCluster cluster;
  cluster.StartNode("a");
  cluster.WaitForServing(1);
  const pid_t holder = cluster.node("a").pid();
  const auto result =
      RunProcess({DeltafinNodeBinary(), "--model", NanoModelDir(), "--listen",
                  "127.0.0.1:0", "--join", cluster.server().address(), "--data",
                  cluster.FolderOf("a")},
                 absl::Minutes(1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 69);
  EXPECT_THAT(result->err,
              HasSubstr("deltafin-node, process " + std::to_string(holder)));
}

}  // namespace
}  // namespace deltafin::testing
