#include "coordinator/engine/hedge_policy.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

constexpr absl::Duration kExpected = absl::Milliseconds(10);

TEST(HedgePolicyTest, SpendsNoMoreThanItsShareOfWhatWasAsked) {
  HedgePolicy policy(0.1);
  EXPECT_FALSE(policy.Spend(1));
  policy.Earn(100);
  EXPECT_FALSE(policy.Spend(11));
  EXPECT_TRUE(policy.Spend(7));
  EXPECT_FALSE(policy.Spend(4));
  EXPECT_TRUE(policy.Spend(3));
  EXPECT_FALSE(policy.Spend(1));
}

TEST(HedgePolicyTest, KeepsUnusedBudgetForAWhileOnly) {
  HedgePolicy policy(0.01);
  for (int layer = 0; layer < 100'000; ++layer) policy.Earn(100);
  EXPECT_TRUE(policy.Spend(500));
  EXPECT_FALSE(policy.Spend(1));
}

TEST(HedgePolicyTest, WithoutABudgetItIsOff) {
  HedgePolicy policy(0);
  EXPECT_FALSE(policy.enabled());
  policy.Earn(1000);
  EXPECT_FALSE(policy.Spend(1));
}

TEST(HedgePolicyTest, LateIsWhatIsRareForTheNode) {
  HedgePolicy policy(0.1);
  EXPECT_EQ(policy.LateAfter(0, kExpected), 4 * kExpected);
  // One in 32 takes ten times as long; the rest as expected.
  for (int i = 0; i < 256; ++i) {
    policy.Observe(0, i % 32 == 0 ? 10 * kExpected : kExpected, kExpected);
    policy.Observe(1, 3 * kExpected, kExpected);
  }
  EXPECT_EQ(policy.LateAfter(0, kExpected), 1.5 * kExpected);
  EXPECT_EQ(policy.LateAfter(1, kExpected), 4.5 * kExpected);
  EXPECT_EQ(policy.LateAfter(0, absl::Microseconds(1)), absl::Milliseconds(2));
  policy.Forget(1);
  EXPECT_EQ(policy.LateAfter(1, kExpected), 4 * kExpected);
}

}  // namespace
}  // namespace deltafin
