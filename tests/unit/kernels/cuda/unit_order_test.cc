#include "kernels/cuda/unit_order.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace deltafin::cuda {
namespace {

constexpr UnitOrder kOrders[] = {
    {192, 2, 14, 206}, {192, 2, 14, 40}, {1, 1, 1, 8},
    {7, 1, 3, 7},      {7, 2, 1, 6},     {33, 2, 5, 1},
};

TEST(UnitOrderTest, TakesEveryUnitOnce) {
  for (const UnitOrder& order : kOrders) {
    std::set<std::tuple<int, int, bool>> seen;
    for (int i = 0; i < order.size(); ++i) {
      const Unit unit = order.At(i);
      ASSERT_GE(unit.job, 0);
      ASSERT_LT(unit.job, order.num_jobs);
      ASSERT_GE(unit.part, 0);
      ASSERT_LT(unit.part, unit.down ? order.down_units : order.up_units);
      ASSERT_TRUE(seen.insert({unit.job, unit.part, unit.down}).second) << i;
    }
    EXPECT_EQ(order.size(),
              order.num_jobs * (order.up_units + order.down_units));
  }
}

// A unit that waits for a later one could wait for ever.
TEST(UnitOrderTest, PutsDownAfterGateAndUpOfItsJobAndOfAllThatAreAhead) {
  for (const UnitOrder& order : kOrders) {
    int up_units = 0;
    for (int i = 0; i < order.size(); ++i) {
      const Unit unit = order.At(i);
      if (!unit.down) {
        ASSERT_EQ(up_units++, unit.job * order.up_units + unit.part);
        continue;
      }
      const int ahead = std::min(unit.job + order.lead, order.num_jobs);
      ASSERT_GE(up_units, (unit.job + 1) * order.up_units);
      ASSERT_GE(up_units, ahead * order.up_units);
    }
  }
}

TEST(UnitOrderTest, HasNoUnitsWithoutJobs) {
  EXPECT_EQ((UnitOrder{0, 2, 14, 206}.size()), 0);
}

}  // namespace
}  // namespace deltafin::cuda
