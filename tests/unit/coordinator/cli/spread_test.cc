#include "coordinator/cli/spread.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(SpreadTest, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(SpreadOf({3, 1, 2}).median, 2);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({}).median, 0);
}

TEST(SpreadTest, RangeIsLeastAndMost) {
  const Spread spread = SpreadOf({5, -1, 2});
  EXPECT_EQ(spread.least, -1);
  EXPECT_EQ(spread.most, 5);
}

}  // namespace
}  // namespace deltafin
