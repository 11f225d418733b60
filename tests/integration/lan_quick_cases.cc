// Cases that take seconds.

#include <gtest/gtest.h>
#include <signal.h>

#include "common/base/status_macros.h"
#include "tests/integration/lan_case.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;

// Nodes that hold each reply back up to 2 ms: a step is nearly always in the
// middle of a layer.
const Words kSlowReplies{"--test-reply-delay-us", "2000:7"};
constexpr int kTokens = 40;
// So many that a generation is far from its end when it is disturbed, however
// late a busy machine does so.
constexpr int kManyTokens = 200;

LanCase NodeKilled(const std::string& name, const LanPrompt& prompt,
                   int after_requests) {
  LanCase c;
  c.name = name;
  c.prompt = prompt;
  c.run_flags = kEveryNodeWorks;
  c.disturb = [after_requests](LanCluster& cluster, Process&) -> absl::Status {
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(1, after_requests));
    cluster.node(1).Signal(SIGKILL);
    return absl::OkStatus();
  };
  c.is_reported_lost = {1};
  c.expect = [](LanCluster& cluster, const Json& report) {
    EXPECT_EQ(NodeEntry(report, cluster.address(1))["reachable"], false);
  };
  return c;
}

// The layer waits for the stopped node before that dies.
LanCase KilledInMidLayer() {
  LanCase c =
      NodeKilled("NodeKilledInMidLayer", ShortLanPrompt(kManyTokens), 0);
  c.node_flags = kSlowReplies;
  c.disturb = [](LanCluster& cluster, Process&) -> absl::Status {
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(1, 10 * kLanMoeLayers));
    cluster.node(1).Signal(SIGSTOP);
    RETURN_IF_ERROR(cluster.WaitForStandstill(0));
    cluster.node(1).Signal(SIGKILL);
    return absl::OkStatus();
  };
  c.loses_parts = {1};
  return c;
}

LanCase TwoKilledInOneToken() {
  LanCase c;
  c.name = "TwoNodesKilledInOneToken";
  c.prompt = ShortLanPrompt(kManyTokens);
  c.run_flags = kEveryNodeWorks;
  c.node_flags = kSlowReplies;
  c.disturb = [](LanCluster& cluster, Process&) -> absl::Status {
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(0, 10 * kLanMoeLayers + 3));
    cluster.node(0).Signal(SIGKILL);
    cluster.node(2).Signal(SIGKILL);
    return absl::OkStatus();
  };
  c.is_reported_lost = {0, 2};
  return c;
}

// It stands still until others have done its work of many layers.
LanCase NodeStoppedForSeconds() {
  LanCase c;
  c.name = "NodeStoppedAndContinued";
  c.prompt = ShortLanPrompt(kManyTokens);
  c.run_flags = kEveryNodeWorks;
  c.node_flags = kSlowReplies;
  c.disturb = [](LanCluster& cluster, Process&) -> absl::Status {
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(2, 10 * kLanMoeLayers));
    cluster.node(2).Signal(SIGSTOP);
    const absl::Status gone_on =
        cluster.WaitForLayerRequests(0, 30 * kLanMoeLayers);
    cluster.node(2).Signal(SIGCONT);
    return gone_on;
  };
  c.loses_parts = {2};
  c.is_reported_lost = {2};
  // It answers what was given away, from an epoch that is over.
  c.expect = [](LanCluster& cluster, const Json& report) {
    EXPECT_GT(NodeEntry(report, cluster.address(2))["replies_dropped"], 0);
  };
  return c;
}

// Its answer comes last: the others' parts of the layer are in the sum already.
LanCase NodeFailsAfterTheReduceBegan() {
  LanCase c;
  c.name = "NodeAnswersWithAnErrorAfterTheReduceBegan";
  c.prompt = ShortLanPrompt(kTokens);
  c.run_flags = kEveryNodeWorks;
  c.prepare = [](LanCluster& cluster) -> absl::Status {
    cluster.SetFlags(
        1, {"--test-reply-delay-us", "20000:7", "--test-fail-reply", "30"});
    cluster.node(1).Signal(SIGTERM);
    return cluster.Restart(1);
  };
  c.loses_parts = {1};
  c.expect = [](LanCluster& cluster, const Json& report) {
    const Json& node = NodeEntry(report, cluster.address(1));
    EXPECT_EQ(node["streams_opened"], 1);  // it answered: no stream was lost
    EXPECT_GT(node["replies"], 0);
  };
  return c;
}

LanCase CablePulled(const std::string& name, const LanPrompt& prompt,
                    int after_requests) {
  LanCase c;
  c.name = name;
  c.prompt = prompt;
  c.run_flags = kEveryNodeWorks;
  c.disturb = [after_requests](LanCluster& cluster, Process&) -> absl::Status {
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(3, after_requests));
    return cluster.Down(3);
  };
  c.loses_parts = {3};
  c.is_reported_lost = {3};
  return c;
}

// A slow cable, so that messages are still on their way into it.
LanCase CablePulledWithWritesPending() {
  LanCase c = CablePulled("CablePulledWithWritesPending", LongLanPrompt(16), 0);
  c.disturb = [](LanCluster& cluster, Process&) -> absl::Status {
    LanLink slow;
    slow.bits_per_second = 10'000'000;
    RETURN_IF_ERROR(cluster.SetLink(3, slow));
    RETURN_IF_ERROR(cluster.WaitForLayerRequests(3, 5));
    return cluster.Down(3);
  };
  return c;
}

LanCase TenPercentLoss() {
  LanCase c;
  c.name = "TenPercentOfPacketsLost";
  c.prompt = ShortLanPrompt(8);
  c.prepare = [](LanCluster& cluster) -> absl::Status {
    LanLink lossy;
    lossy.loss_percent = 10;
    for (int i = 0; i < cluster.num_nodes(); ++i) {
      RETURN_IF_ERROR(cluster.SetLink(i, lossy));
    }
    return absl::OkStatus();
  };
  c.expect = [](LanCluster& cluster, const Json&) {
    for (int i = 0; i < cluster.num_nodes(); ++i) {
      const auto counters = cluster.box().Counters(i + 1);
      ASSERT_TRUE(counters.ok()) << counters.status();
      EXPECT_GT(counters->lost, 0);
    }
  };
  return c;
}

LanCase Undisturbed() {
  LanCase c;
  c.name = "Undisturbed";
  c.prompt = ShortLanPrompt(kTokens);
  c.expect = [](LanCluster& cluster, const Json& report) {
    for (int i = 0; i < cluster.num_nodes(); ++i) {
      EXPECT_GT(NodeEntry(report, cluster.address(i))["slices_computed"], 0);
    }
  };
  return c;
}

}  // namespace

std::vector<LanCase> QuickLanCases(LanProfile profile) {
  const LanPrompt token = ShortLanPrompt(kManyTokens);
  const LanPrompt prefill = LongLanPrompt(8);
  std::vector<LanCase> cases{
      Undisturbed(),
      NodeKilled("NodeKilledAtTheFirstToken", token,
                 token.prefill_requests + 1),
      NodeKilled("NodeKilledInMidPrefill", prefill,
                 prefill.prefill_requests / 3),
      KilledInMidLayer(),
      TwoKilledInOneToken(),
      NodeStoppedForSeconds(),
      NodeFailsAfterTheReduceBegan(),
  };
  if (profile != LanProfile::kLoopback) {
    cases.push_back(CablePulled("CablePulled", token, 10 * kLanMoeLayers));
    cases.push_back(CablePulled("CablePulledInMidPrefill", prefill,
                                prefill.prefill_requests / 3));
  }
  if (profile == LanProfile::kLan) {
    cases.push_back(CablePulledWithWritesPending());
    cases.push_back(TenPercentLoss());
  }
  for (LanCase& c : cases) c.profile = profile;
  return cases;
}

}  // namespace deltafin::testing
