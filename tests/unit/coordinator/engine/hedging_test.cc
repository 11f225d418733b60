// Work that is late is asked of another node as well; the bits are the same.

#include <gtest/gtest.h>

#include <atomic>

#include "absl/time/clock.h"
#include "coordinator/engine/expert_dispatcher.h"
#include "tests/unit/coordinator/engine/cluster_fixture.h"

namespace deltafin {
namespace {

using testing::Cluster;
using testing::ClusterOptions;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::ReplyFate;

NodeWork Sum(const DispatcherStats& stats) {
  NodeWork sum;
  for (const NodeStats& node : stats.nodes) AddWork(node.work, &sum);
  return sum;
}

// Three nodes that hold everything; the second one hangs for a while at every
// 40th of its parts.
ClusterOptions WithHiccups(double hedge_budget) {
  ClusterOptions options;
  options.nodes.resize(3);
  auto parts = std::make_shared<std::atomic<int>>(0);
  options.nodes[1].on_reply = [parts](const auto&, auto*) {
    if (++*parts % 40 == 0) absl::SleepFor(absl::Milliseconds(300));
    return ReplyFate::kSend;
  };
  options.random_placement_seed = 5;  // nobody is left out as slow
  options.change = [hedge_budget](DispatcherOptions* dispatch) {
    dispatch->exchange.hedge_budget = hedge_budget;
  };
  return options;
}

TEST(HedgingTest, LateWorkIsAskedOfAnotherWithinTheBudget) {
  constexpr double kBudget = 0.2;
  Cluster cluster(3, WithHiccups(kBudget));
  const GenerationRequest request = MakeRequest({1, 2}, 60);
  const std::vector<int32_t> expected = IdsAlone(request);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  NodeWork work;
  do {
    std::vector<int32_t> ids;
    ASSERT_TRUE(cluster.Run(request, &ids).status.ok());
    EXPECT_EQ(ids, expected);
    work = Sum(cluster.dispatcher->stats());
  } while (work.hedges_won == 0 && absl::Now() < deadline);
  EXPECT_GT(work.parts_hedged, 0);
  EXPECT_GT(work.hedges_won, 0);
  EXPECT_LE(work.hedges_won, work.parts_hedged);
  EXPECT_LE(static_cast<double>(work.slices_hedged),
            kBudget * static_cast<double>(work.slices_computed));
  EXPECT_EQ(work.parts_lost, 0);
}

TEST(HedgingTest, WithoutABudgetEachPartIsAskedOnce) {
  Cluster cluster(3, WithHiccups(0));
  const GenerationRequest request = MakeRequest({1, 2}, 20);
  std::vector<int32_t> ids;
  ASSERT_TRUE(cluster.Run(request, &ids).status.ok());
  EXPECT_EQ(ids, IdsAlone(request));
  const NodeWork work = Sum(cluster.dispatcher->stats());
  EXPECT_EQ(work.parts_hedged, 0);
  EXPECT_EQ(work.hedges_won, 0);
}

// The node that was asked as well dies over it: the late one answers.
TEST(HedgingTest, AHedgeThatIsLostCostsNothing) {
  ClusterOptions options = WithHiccups(1);
  for (const int other : {0, 2}) {
    options.nodes[other].on_reply = [](const auto& request, auto*) {
      // Hedges are no parts of the layer's first plan.
      return request.num_parts() == 0 ? ReplyFate::kBreakStream
                                      : ReplyFate::kSend;
    };
  }
  Cluster cluster(3, options);
  const GenerationRequest request = MakeRequest({1, 2}, 60);
  const std::vector<int32_t> expected = IdsAlone(request);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  NodeWork work;
  do {
    std::vector<int32_t> ids;
    const absl::Status status = cluster.Run(request, &ids).status;
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ids, expected);
    work = Sum(cluster.dispatcher->stats());
  } while (work.parts_hedged == 0 && absl::Now() < deadline);
  EXPECT_GT(work.parts_hedged, 0);
}

}  // namespace
}  // namespace deltafin
