#include "coordinator/engine/route_heat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ModelExtent Extent() {
  ModelExtent extent;
  extent.first_layer = 1;
  extent.num_layers = 2;
  extent.num_experts = 3;
  return extent;
}

constexpr int kHalfLife = static_cast<int>(RouteHeat::kHalfLifeTokens);

TEST(RouteHeatTest, CountsTheChoicesOfEachLayer) {
  RouteHeat heat(Extent());
  heat.Count(2, 2, std::vector<int32_t>{0, 2, 1, 2});
  EXPECT_THAT(heat.Snapshot(), ElementsAre(0, 0, 0, 1, 1, 2));
}

TEST(RouteHeatTest, IgnoresWhatTheModelDoesNotHave) {
  RouteHeat heat(Extent());
  heat.Count(0, 1, std::vector<int32_t>{0});
  heat.Count(3, 1, std::vector<int32_t>{0});
  heat.Count(2, 1, std::vector<int32_t>{-1, 3});
  EXPECT_THAT(heat.Snapshot(), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(RouteHeatTest, AChoiceCountsHalfAfterTheHalfLife) {
  RouteHeat heat(Extent());
  heat.Count(2, 1, std::vector<int32_t>{0});
  heat.Count(1, kHalfLife, std::vector<int32_t>{1});
  EXPECT_THAT(heat.Snapshot(), ElementsAre(0, 1, 0, 0.5, 0, 0));
}

TEST(RouteHeatTest, StaysRightWhenItsUnitHasBeenBroughtBack) {
  RouteHeat heat(Extent());
  for (int i = 0; i < 100; ++i) {
    heat.Count(1, kHalfLife, std::vector<int32_t>{0});
  }
  // 1 + 1/2 + 1/4 + ...
  EXPECT_FLOAT_EQ(heat.Snapshot()[0], 2.0F);
}

TEST(RouteHeatTest, AHugePromptFadesWhatWasBefore) {
  RouteHeat heat(Extent());
  heat.Count(2, 1, std::vector<int32_t>{0});
  heat.Count(1, 1 << 30, std::vector<int32_t>{1});
  EXPECT_LT(heat.Snapshot()[3], 1e-5F);
  EXPECT_FLOAT_EQ(heat.Snapshot()[1], 1.0F);
}

TEST(RouteHeatTest, WithoutAnExtentThereIsNothing) {
  RouteHeat heat{ModelExtent()};
  heat.Count(0, 1, std::vector<int32_t>{0});
  EXPECT_THAT(heat.Snapshot(), IsEmpty());
}

TEST(RouteHeatTest, MayBeLookedAtWhileItCounts) {
  RouteHeat heat(Extent());
  std::thread counting([&heat] {
    for (int i = 0; i < 2000; ++i) heat.Count(2, 1, std::vector<int32_t>{1, 2});
  });
  float last = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> counts = heat.Snapshot();
    EXPECT_EQ(counts[4], counts[5]);  // never one of a row alone
    EXPECT_GE(counts[4], last);
    last = counts[4];
  }
  counting.join();
  EXPECT_EQ(heat.Snapshot()[4], 2000);
}

}  // namespace
}  // namespace deltafin
