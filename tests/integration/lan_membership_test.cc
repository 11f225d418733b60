// A cluster on a LAN in a box whose nodes join: placements that change under a
// generation and a coordinator that starts again never show in a text. Needs
// root.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "tests/integration/lan_case.h"
#include "tests/integration/lan_server.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::Not;

constexpr int kTokens = 40;
constexpr absl::Duration kPatience = absl::Minutes(1);

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
    auto server = LanServer::Start(*cluster_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<LanCluster> cluster_;
  std::unique_ptr<LanServer> server_;
};

std::string NameOf(const ::testing::TestParamInfo<LanProfile>& info) {
  return LanProfileName(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, LanMembershipTest,
                         ::testing::Values(LanProfile::kLan, LanProfile::kFast,
                                           LanProfile::kLoopback),
                         NameOf);

TEST_P(LanMembershipTest, ANewPlacementAfterEveryTokenDoesNotShow) {
  const v1::ClusterHealth before = server_->WaitForAll();
  int changes = 0;
  server_->ExpectUndisturbed(kTokens, [&](int tokens) {
    server_->BeginDrain(cluster_->address(tokens / 2 % kLanNodes),
                        tokens % 2 == 1);
    ++changes;
  });
  EXPECT_EQ(changes, kTokens);
  // The first token takes back a drain that never was; all others change it.
  EXPECT_GE(server_->Health().epoch(), before.epoch() + kTokens - 1);
}

TEST_P(LanMembershipTest, ANodeThatComesBackFromAnOlderEpochDoesNotShow) {
  const v1::ClusterHealth before = server_->WaitForAll();
  const std::string file = cluster_->DataFolderOf(1) + "/epoch";
  server_->ExpectUndisturbed(kTokens, [&](int tokens) {
    if (tokens != 10) return;
    cluster_->node(1).Signal(SIGKILL);
    ASSERT_TRUE(cluster_->node(1).Wait(kPatience).ok());
    ASSERT_TRUE(WriteFileAtomically(file, "1\n").ok());
    ASSERT_TRUE(cluster_->Restart(1).ok());
  });
  const v1::ClusterHealth after = server_->WaitForAll();
  EXPECT_GT(after.epoch(), before.epoch());
  server_->ExpectUndisturbed(kTokens);
  EXPECT_GT(*cluster_->LayerRequests(1), 0);
  const absl::Time deadline = absl::Now() + kPatience;
  while (std::stoull(*ReadFile(file, 100)) < after.epoch()) {
    ASSERT_LT(absl::Now(), deadline) << *ReadFile(file, 100);
    absl::SleepFor(absl::Milliseconds(50));
  }
}

TEST_P(LanMembershipTest, ACoordinatorThatStartsAgainHasItsNodesBack) {
  const v1::ClusterHealth before = server_->WaitForAll();
  Json ids;
  const grpc::Status status = server_->Generate(2000, &ids, [&](int tokens) {
    if (tokens == 10) server_->process().Signal(SIGKILL);
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), Not(::testing::IsEmpty()));
  EXPECT_LT(ids.size(), 2000u);
  ASSERT_TRUE(server_->process().Wait(kPatience).ok());
  server_.reset();
  StartServer();
  const v1::ClusterHealth after = server_->WaitForAll();
  EXPECT_GT(after.epoch(), before.epoch());
  EXPECT_EQ(after.coordinator_id(), before.coordinator_id());
  server_->ExpectUndisturbed(kTokens);
}

// Its heartbeats tell that it is far, so that no layer has to wait to learn it.
// Counted, not timed: a busy machine may make a near node slower than a far one
// for some layers.
TEST(LanFarNodeTest, ANodeFiftyMillisecondsAwayHasNoWorkWhileOthersSuffice) {
  constexpr int kFar = 3;
  constexpr int kManyTokens = 200;
  const absl::Status possible = LanBox::Possible();
  if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
  auto cluster =
      LanCluster::Start(LanProfile::kLan, kLanNodes, {}, LanMembers::kJoining);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  LanLink far;
  far.delay = absl::Milliseconds(50);
  ASSERT_TRUE((*cluster)->SetLink(kFar, far).ok());
  auto server = LanServer::Start(**cluster, {"--heartbeat-ms", "300"});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto is_told = [&](const v1::NodeHealth& node) {
    const bool is_far = node.name() == (*cluster)->address(kFar);
    return node.round_trip_p50_us() >= (is_far ? 50'000 : 1);
  };
  const absl::Time deadline = absl::Now() + kPatience;
  v1::ClusterHealth health = (*server)->WaitForAll();
  while (!std::ranges::all_of(health.nodes(), is_told)) {
    ASSERT_LT(absl::Now(), deadline) << health.DebugString();
    absl::SleepFor(absl::Milliseconds(50));
    health = (*server)->Health();
  }
  (*server)->ExpectUndisturbed(kManyTokens);
  int64_t near_requests = 0;
  for (int node = 0; node < kFar; ++node) {
    near_requests += *(*cluster)->LayerRequests(node);
  }
  const int64_t far_requests = *(*cluster)->LayerRequests(kFar);
  std::printf("layer requests: %ld near, %ld far\n", near_requests,
              far_requests);
  EXPECT_GE(near_requests, 100);
  EXPECT_LE(20 * far_requests, near_requests);
}

}  // namespace
}  // namespace deltafin::testing
