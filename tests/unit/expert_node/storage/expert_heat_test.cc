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

}  // namespace
}  // namespace deltafin
