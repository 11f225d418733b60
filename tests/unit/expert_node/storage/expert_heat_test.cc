#include "expert_node/storage/expert_heat.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deltafin {
namespace {

constexpr ExpertKey kFirst{1, 7};
constexpr ExpertKey kSecond{2, 7};

TEST(ExpertHeatTest, IsNothingBeforeTheFirstUse) {
  ExpertHeat heat(10);
  EXPECT_EQ(heat.Of(kFirst), 0);
  heat.Use(kFirst);
  EXPECT_EQ(heat.Of(kFirst), 1);
  EXPECT_EQ(heat.Of(kSecond), 0);
}

TEST(ExpertHeatTest, AUseCountsHalfAfterTheHalfLife) {
  ExpertHeat heat(10);
  heat.Use(kFirst);
  heat.Use(kFirst);
  for (int i = 0; i < 10; ++i) heat.BeginRequest();
  heat.Use(kSecond);
  // Two uses, worth half: as hot as one use now.
  EXPECT_DOUBLE_EQ(heat.Of(kFirst), heat.Of(kSecond));
  heat.Use(kSecond);
  EXPECT_DOUBLE_EQ(heat.Of(kSecond), heat.Of(kFirst) + 1);
}

TEST(ExpertHeatTest, StaysFiniteForever) {
  ExpertHeat heat(1);
  heat.Use(kFirst);
  for (int i = 0; i < 5000; ++i) heat.BeginRequest();
  heat.Use(kFirst);
  EXPECT_DOUBLE_EQ(heat.Of(kFirst), 5001);
}

TEST(ExpertHeatTest, TakesWhatWasUsedSinceTheLastTime) {
  ExpertHeat heat(10);
  heat.Use(kFirst, 0b1);
  heat.Use(kFirst, 0b100);
  const HeatPage first = heat.TakeUses();
  EXPECT_EQ(first.now, 1);
  EXPECT_EQ(first.uses, (std::vector<ExpertUse>{{kFirst, 2, 0b101}}));
  for (int i = 0; i < 5; ++i) heat.BeginRequest();
  EXPECT_TRUE(heat.TakeUses().uses.empty());
  heat.Use(kSecond, 0b10);
  const HeatPage second = heat.TakeUses();
  EXPECT_EQ(second.now, 1.5);
  EXPECT_EQ(second.uses, (std::vector<ExpertUse>{{kSecond, 1.5, 0b10}}));
}

TEST(ExpertHeatTest, GoesOnWhereAnotherRunEnded) {
  ExpertHeat before(10);
  before.Use(kFirst);
  before.Use(kFirst);
  for (int i = 0; i < 30; ++i) before.BeginRequest();
  ExpertHeat after(10);
  after.Restore(before.TakeUses());
  before.Use(kSecond);
  after.Use(kSecond);
  before.Use(kFirst);
  after.Use(kFirst);
  EXPECT_DOUBLE_EQ(after.Of(kFirst), before.Of(kFirst));
  EXPECT_DOUBLE_EQ(after.Of(kSecond), before.Of(kSecond));
}

TEST(ExpertHeatTest, AnEmptyPageChangesNothing) {
  ExpertHeat heat(10);
  heat.Restore({});
  heat.Use(kFirst);
  EXPECT_EQ(heat.Of(kFirst), 1);
}

}  // namespace
}  // namespace deltafin
