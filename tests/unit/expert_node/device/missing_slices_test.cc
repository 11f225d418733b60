#include "expert_node/device/missing_slices.h"

#include <gtest/gtest.h>

#include "tests/testing/manual_clock.h"

namespace deltafin {
namespace {

using absl::Microseconds;

class MissingSlicesTest : public ::testing::Test {
 protected:
  // Index of what is taken; -1: nothing.
  static int ByFeeder(MissingSlices& missing, int feeder) {
    const auto slice = missing.TakeForFeeder(feeder);
    return slice ? slice->index : -1;
  }
  static int ByProcessor(MissingSlices& missing) {
    const auto slice = missing.TakeForProcessor();
    return slice ? slice->index : -1;
  }

  ManualClock clock_;
  SliceTimes times_;
};

TEST_F(MissingSlicesTest, GivesEachSliceOnceInItsOrder) {
  MissingSlices missing(2, times_, clock_);
  for (int i = 0; i < 4; ++i) missing.Add(0, {i, 10 + i, 1});
  missing.Add(1, {4, 14, 1});
  EXPECT_EQ(ByFeeder(missing, 0), 0);
  EXPECT_EQ(ByFeeder(missing, 1), 4);
  EXPECT_EQ(ByFeeder(missing, 1), -1);
  EXPECT_EQ(ByProcessor(missing), 1);  // nothing is known: it is tried
  EXPECT_EQ(ByFeeder(missing, 0), 2);
  EXPECT_EQ(ByProcessor(missing), 3);
  EXPECT_EQ(ByProcessor(missing), -1);
  EXPECT_EQ(ByFeeder(missing, 0), -1);
}

TEST_F(MissingSlicesTest, LeavesTheEndToTheFeeder) {
  times_.AddBrought(0, Microseconds(30));
  times_.AddComputed(1, Microseconds(100));
  MissingSlices missing(1, times_, clock_);
  for (int i = 0; i < 6; ++i) missing.Add(0, {i, i, 1});
  // The feeder would need 180 us for six, 120 for four, 90 for three.
  EXPECT_TRUE(missing.HasForProcessor());
  EXPECT_EQ(ByProcessor(missing), 0);
  EXPECT_EQ(ByProcessor(missing), 1);
  EXPECT_EQ(ByProcessor(missing), 2);
  EXPECT_FALSE(missing.HasForProcessor());
  EXPECT_EQ(ByProcessor(missing), -1);
  EXPECT_EQ(ByFeeder(missing, 0), 3);
}

TEST_F(MissingSlicesTest, CountsWhatTheFeederIsAtNow) {
  times_.AddBrought(0, Microseconds(30));
  times_.AddComputed(1, Microseconds(100));
  MissingSlices missing(1, times_, clock_);
  for (int i = 0; i < 5; ++i) missing.Add(0, {i, i, 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ByFeeder(missing, 0), i);
  EXPECT_EQ(ByProcessor(missing), 3);  // of 150 us for all
  clock_.Advance(Microseconds(60));
  EXPECT_EQ(ByProcessor(missing), -1);  // 90 us after the first, 60 are left
  EXPECT_EQ(ByFeeder(missing, 0), 4);
}

TEST_F(MissingSlicesTest, HelpsTheFeederThatNeedsLongest) {
  times_.AddBrought(0, Microseconds(10));
  times_.AddBrought(1, Microseconds(50));
  times_.AddComputed(1, Microseconds(40));
  MissingSlices missing(2, times_, clock_);
  for (int i = 0; i < 4; ++i) missing.Add(0, {i, i, 1});
  for (int i = 4; i < 6; ++i) missing.Add(1, {i, i, 1});
  EXPECT_EQ(ByProcessor(missing), 4);
  EXPECT_EQ(ByProcessor(missing), 5);
  EXPECT_EQ(ByProcessor(missing), -1);  // 40 us for four
}

TEST_F(MissingSlicesTest, KnowsThatMoreTokensTakeLonger) {
  times_.AddBrought(0, Microseconds(30));
  times_.AddComputed(1, Microseconds(20));
  times_.AddComputed(16, Microseconds(500));
  MissingSlices missing(1, times_, clock_);
  for (int i = 0; i < 3; ++i) missing.Add(0, {i, i, i == 1 ? 16u : 1u});
  EXPECT_EQ(ByProcessor(missing), 0);
  EXPECT_EQ(ByProcessor(missing), -1);
  EXPECT_EQ(ByFeeder(missing, 0), 1);
  EXPECT_EQ(ByProcessor(missing), 2);
}

TEST_F(MissingSlicesTest, TimesFollowSlowly) {
  EXPECT_EQ(times_.brought(3), absl::ZeroDuration());
  times_.AddBrought(3, Microseconds(80));
  EXPECT_EQ(times_.brought(3), Microseconds(80));
  times_.AddBrought(3, Microseconds(160));
  EXPECT_EQ(times_.brought(3), Microseconds(90));
  EXPECT_EQ(times_.brought(2), absl::ZeroDuration());
  times_.AddComputed(9, Microseconds(8));
  EXPECT_EQ(times_.computed(15), Microseconds(8));
  EXPECT_EQ(times_.computed(16), absl::ZeroDuration());
}

}  // namespace
}  // namespace deltafin
