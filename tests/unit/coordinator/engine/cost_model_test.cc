#include "coordinator/engine/cost_model.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

PartTiming Timing(double elapsed_ms, double compute_ms) {
  PartTiming timing;
  timing.elapsed = absl::Milliseconds(elapsed_ms);
  timing.compute = absl::Milliseconds(compute_ms);
  return timing;
}

TEST(CostModelTest, TellsLatencyFromWork) {
  CostModel model;
  EXPECT_FALSE(model.knows(2));
  model.Observe(2, Timing(50, 10), 100, 1, kStart);
  ASSERT_TRUE(model.knows(2));
  EXPECT_FALSE(model.knows(1));
  const NodeCost cost = model.CostOf(2, kStart);
  EXPECT_DOUBLE_EQ(cost.latency, 0.040);
  EXPECT_DOUBLE_EQ(cost.per_unit, 1e-4);
  EXPECT_EQ(model.Expected(2, 200), absl::Milliseconds(60));
}

TEST(CostModelTest, ManyRowsTellNothingOfLatency) {
  CostModel model;
  model.Observe(0, Timing(2, 1), 1, 1, kStart);
  model.Observe(0, Timing(500, 1), 1, 128, kStart);
  EXPECT_DOUBLE_EQ(model.CostOf(0, kStart).latency, 1e-3);
}

TEST(CostModelTest, FollowsANodeThatChanges) {
  CostModel model;
  model.Observe(0, Timing(1, 1), 1, 1, kStart);
  for (int i = 0; i < 20; ++i) model.Observe(0, Timing(4, 4), 1, 1, kStart);
  EXPECT_NEAR(model.CostOf(0, kStart).per_unit, 4e-3, 1e-4);
}

TEST(CostModelTest, OneHiccupCountsLittle) {
  CostModel model;
  model.Observe(0, Timing(2, 1), 1, 1, kStart);
  model.Observe(0, Timing(1000, 500), 1, 1, kStart);
  EXPECT_DOUBLE_EQ(model.CostOf(0, kStart).latency, 1e-3 + 0.2 * 2e-3);
  EXPECT_DOUBLE_EQ(model.CostOf(0, kStart).per_unit, 1e-3 + 0.2 * 1e-3);
}

TEST(CostModelTest, ANodeLeftAloneIsTriedAgainLessAndLessOften) {
  CostModel model;
  model.Observe(0, Timing(51, 1), 1, 1, kStart);
  int num_tries = 0;
  for (int second = 0; second < 600; ++second) {
    const NodeCost cost = model.CostOf(0, kStart + absl::Seconds(second));
    if (cost.latency == 0) ++num_tries;
  }
  // After 6, 17, 38, 79, 160 and 321 seconds.
  EXPECT_EQ(num_tries, 6);
}

TEST(CostModelTest, ForgetsANodeThatWasAway) {
  CostModel model;
  model.Observe(0, Timing(1, 1), 1, 1, kStart);
  model.Forget(0);
  model.Forget(9);
  EXPECT_FALSE(model.knows(0));
}

}  // namespace
}  // namespace deltafin
