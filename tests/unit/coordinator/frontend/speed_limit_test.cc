#include "coordinator/frontend/speed_limit.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

SpeedFacts TwoNodes() {
  SpeedFacts facts;
  facts.running = 1;
  for (const char* name : {"a:1", "b:2"}) {
    facts.health.add_nodes()->set_name(name);
  }
  facts.slowest_node = "b:2";
  return facts;
}

TEST(SpeedLimitTest, SharesAreThoseOfTheTimeBetweenTwoMoments) {
  ForwardStats before;
  before.spine.compute = 10;
  before.experts_read = 5;
  ForwardStats after = before;
  after.spine.compute += 1;
  after.spine.attention += 0.5;
  after.spine.read += 0.25;
  after.spine.head += 0.25;
  after.experts_read += 4;
  after.experts_compute += 1;
  after.network += 1;
  const StepShares shares = SharesBetween(before, after);
  EXPECT_DOUBLE_EQ(shares.spine, 0.25);
  EXPECT_DOUBLE_EQ(shares.disk, 0.5);
  EXPECT_DOUBLE_EQ(shares.experts, 0.125);
  EXPECT_DOUBLE_EQ(shares.network, 0.125);
}

TEST(SpeedLimitTest, WithoutAStepThereAreNoShares) {
  ForwardStats stats;
  stats.network = 3;
  EXPECT_FALSE(SharesBetween(stats, stats).any());
  EXPECT_FALSE(SharesBetween(stats, ForwardStats()).any());
}

TEST(SpeedLimitTest, NamesTheLargestShareAndTheSlowestNode) {
  SpeedFacts facts = TwoNodes();
  facts.shares = {0.2, 0.614, 0.1, 0.086};
  const SpeedLimit limit = JudgeSpeed(facts);
  EXPECT_EQ(limit.place, "disk");
  EXPECT_EQ(limit.sentence,
            "Drives: 61 % of a step is waiting for experts to be read. The "
            "slowest node is b:2.");
}

TEST(SpeedLimitTest, SaysWhenTheSlowestDriveThrottles) {
  SpeedFacts facts = TwoNodes();
  facts.shares = {0, 1, 0, 0};
  facts.health.mutable_nodes(1)->mutable_capacity()->set_throttled(true);
  EXPECT_EQ(JudgeSpeed(facts).sentence,
            "Drives: 100 % of a step is waiting for experts to be read. The "
            "slowest node is b:2, whose drive throttles.");
}

TEST(SpeedLimitTest, TheSpineIsNoNodesFault) {
  SpeedFacts facts = TwoNodes();
  facts.shares = {0.7, 0.1, 0.1, 0.1};
  EXPECT_EQ(JudgeSpeed(facts).sentence,
            "The coordinator: 70 % of a step is the spine's own work.");
}

TEST(SpeedLimitTest, OneNodeIsNotCalledTheSlowest) {
  SpeedFacts facts = TwoNodes();
  facts.health.mutable_nodes()->DeleteSubrange(0, 1);
  facts.shares = {0, 0, 0.9, 0.1};
  EXPECT_EQ(JudgeSpeed(facts).sentence,
            "Processors of the nodes: 90 % of a step is the experts' "
            "arithmetic.");
}

TEST(SpeedLimitTest, WithoutRequestsItIsIdleAndAFirstStepIsAwaited) {
  SpeedFacts facts = TwoNodes();
  EXPECT_EQ(JudgeSpeed(facts).place, "starting");
  facts.running = 0;
  EXPECT_EQ(JudgeSpeed(facts).place, "idle");
  facts.waiting = 2;
  EXPECT_EQ(JudgeSpeed(facts).place, "starting");
}

TEST(SpeedLimitTest, AClusterThatIsDownSaysWhy) {
  SpeedFacts facts = TwoNodes();
  facts.shares = {1, 0, 0, 0};
  facts.health.set_verdict(v1::ClusterHealth::DOWN);
  facts.health.set_reason("some experts have no copy in service");
  const SpeedLimit limit = JudgeSpeed(facts);
  EXPECT_EQ(limit.place, "down");
  EXPECT_EQ(limit.sentence,
            "Nothing can run: some experts have no copy in service.");
}

}  // namespace
}  // namespace deltafin
