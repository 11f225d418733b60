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

TEST(CostModelTest, AnswersToTriesDoNotMakeTriesMoreFrequent) {
  CostModel model;
  model.Observe(0, Timing(51, 1), 1, 1, kStart);
  int num_tries = 0;
  for (int second = 0; second < 600; ++second) {
    const absl::Time now = kStart + absl::Seconds(second);
    if (model.CostOf(0, now).latency > 0) continue;
    ++num_tries;
    model.Observe(0, Timing(51, 1), 1, 1, now + absl::Milliseconds(51));
  }
  EXPECT_EQ(num_tries, 6);
}

TEST(CostModelTest, ANodeInUseIsTriedSoonOnceItIsLeftAlone) {
  CostModel model;
  model.Observe(0, Timing(51, 1), 1, 1, kStart);
  absl::Time now = kStart + absl::Seconds(100);
  EXPECT_EQ(model.CostOf(0, now).latency, 0);
  for (int i = 0; i < 20; ++i) {
    now += absl::Seconds(1);
    model.Observe(0, Timing(2, 1), 1, 1, now);
  }
  EXPECT_GT(model.CostOf(0, now + absl::Seconds(5)).latency, 0);
  EXPECT_EQ(model.CostOf(0, now + absl::Seconds(6)).latency, 0);
}

TEST(CostModelTest, TheRoundTripStandsForWhatIsNotKnown) {
  CostModel model;
  EXPECT_DOUBLE_EQ(model.CostOf(3, kStart, absl::Milliseconds(100)).latency,
                   0.1);
  EXPECT_FALSE(model.knows(3));
  // A first part of many rows tells of speed alone.
  model.Observe(3, Timing(900, 8), 128, 128, kStart);
  const NodeCost cost = model.CostOf(3, kStart, absl::Milliseconds(100));
  EXPECT_DOUBLE_EQ(cost.latency, 0.1);
  EXPECT_DOUBLE_EQ(cost.per_unit, 8e-3 / 128);
  // Whatever it is, the first part that tells of it is believed.
  model.Observe(3, Timing(61, 1), 1, 1, kStart);
  EXPECT_DOUBLE_EQ(model.CostOf(3, kStart).latency, 0.06);
}

TEST(CostModelTest, ANodeWhoseRoundTripIsKnownIsNotTriedInVain) {
  CostModel model;
  model.Observe(0, Timing(101, 1), 1, 1, kStart);
  const absl::Duration far = absl::Milliseconds(99);
  for (int second = 6; second < 600; ++second) {
    EXPECT_DOUBLE_EQ(
        model.CostOf(0, kStart + absl::Seconds(second), far).latency, 0.099);
  }
  const absl::Time later = kStart + absl::Seconds(600);
  EXPECT_DOUBLE_EQ(model.CostOf(0, later, absl::Milliseconds(1)).latency, 1e-3);
  // Found nearer, it is believed at once.
  model.Observe(0, Timing(3, 1), 1, 1, later);
  EXPECT_DOUBLE_EQ(model.CostOf(0, later).latency, 2e-3);
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
