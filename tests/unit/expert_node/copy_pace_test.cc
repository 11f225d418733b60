#include "expert_node/copy_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace deltafin {
namespace {

TEST(CopyPaceTest, WithoutABudgetTheNextCopyMayBeginAtOnce) {
  CopyPace pace;
  pace.Begin(1'000'000, absl::Seconds(10));
  EXPECT_LE(pace.next(), absl::Seconds(10));
  EXPECT_EQ(pace.TimeOf(1'000'000), absl::ZeroDuration());
}

TEST(CopyPaceTest, CopiesUseUpTheirTimeInTheBudget) {
  CopyPace pace;
  pace.SetBudget(1'000);
  pace.Begin(2'000, absl::Seconds(10));
  EXPECT_EQ(pace.next(), absl::Seconds(12));
  pace.Begin(500, absl::Seconds(12));
  EXPECT_EQ(pace.next(), absl::Seconds(12.5));
}

TEST(CopyPaceTest, UnusedTimeIsNotSavedUp) {
  CopyPace pace;
  pace.SetBudget(1'000);
  pace.Begin(1'000, absl::Seconds(0));
  pace.Begin(1'000, absl::Seconds(100));
  EXPECT_EQ(pace.next(), absl::Seconds(101));
}

// Pieces of any size, begun as early as they may or a while later.
TEST(CopyPaceTest, NoWindowHasMoreThanTheBudgetAndOnePiece) {
  constexpr double kBudget = 1'000;
  constexpr uint64_t kLargest = 700;
  struct Begun {
    absl::Duration at;
    uint64_t bytes;
  };
  std::vector<Begun> begun;
  CopyPace pace;
  pace.SetBudget(static_cast<uint64_t>(kBudget));
  uint32_t state = 1;
  const auto draw = [&state](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 300; ++i) {
    const absl::Duration late =
        absl::Milliseconds(draw(3) == 0 ? draw(2'000) : 0);
    begun.push_back({pace.next() + late, 1 + draw(kLargest)});
    pace.Begin(begun.back().bytes, begun.back().at);
  }
  for (size_t first = 0; first < begun.size(); ++first) {
    double bytes = 0;
    for (size_t last = first; last < begun.size(); ++last) {
      bytes += static_cast<double>(begun[last].bytes);
      const absl::Duration window = begun[last].at - begun[first].at;
      ASSERT_LE(bytes,
                kBudget * absl::ToDoubleSeconds(window) + kLargest + 1e-3)
          << first << " to " << last;
    }
  }
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
