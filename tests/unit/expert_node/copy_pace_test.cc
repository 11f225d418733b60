#include "expert_node/copy_pace.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(CopyPaceTest, WithoutABudgetTheNextCopyMayBeginAtOnce) {
  CopyPace pace;
  pace.Copied(1'000'000, absl::Seconds(10), absl::Seconds(11));
  EXPECT_LE(pace.next(), absl::Seconds(11));
}

TEST(CopyPaceTest, CopiesUseUpTheirTimeInTheBudget) {
  CopyPace pace;
  pace.SetBudget(1'000);
  pace.Copied(2'000, absl::Seconds(10), absl::Seconds(10.5));
  EXPECT_EQ(pace.next(), absl::Seconds(12));
  pace.Copied(500, absl::Seconds(12), absl::Seconds(12.1));
  EXPECT_EQ(pace.next(), absl::Seconds(12.5));
}

TEST(CopyPaceTest, UnusedTimeIsNotSavedUp) {
  CopyPace pace;
  pace.SetBudget(1'000);
  pace.Copied(1'000, absl::Seconds(0), absl::Seconds(0.1));
  pace.Copied(1'000, absl::Seconds(100), absl::Seconds(100.1));
  EXPECT_EQ(pace.next(), absl::Seconds(101));
}

TEST(CopyPaceTest, TheRateCountsShortPausesAndForgetsLongOnes) {
  CopyPace pace;
  EXPECT_EQ(pace.rate(), 0);
  pace.Copied(100, absl::Seconds(0), absl::Seconds(1));
  EXPECT_NEAR(pace.rate(), 100, 1e-9);
  pace.Copied(100, absl::Seconds(2), absl::Seconds(3));  // a second between
  EXPECT_NEAR(pace.rate(), 66, 2);
  CopyPace other;
  other.Copied(100, absl::Seconds(0), absl::Seconds(1));
  other.Copied(100, absl::Seconds(3600), absl::Seconds(3601));
  EXPECT_NEAR(other.rate(), 100, 1);
}

TEST(CopyPaceTest, TheRateFollowsAChange) {
  CopyPace pace;
  for (int s = 0; s < 600; ++s) {
    pace.Copied(s < 300 ? 1'000 : 10, absl::Seconds(s), absl::Seconds(s + 1));
  }
  EXPECT_NEAR(pace.rate(), 10, 2);
}

}  // namespace
}  // namespace deltafin
