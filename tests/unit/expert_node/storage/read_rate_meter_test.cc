#include "expert_node/storage/read_rate_meter.h"

#include <gtest/gtest.h>

#include "tests/testing/manual_clock.h"

namespace deltafin {
namespace {

// Two reads at once of `bytes` each, over `seconds`. The bytes of the one that
// ends second count in the next second.
void ReadTwice(ReadRateMeter& meter, ManualClock& clock, uint64_t bytes,
               int seconds = 1) {
  const auto first = meter.Begin();
  const auto second = meter.Begin();
  clock.Advance(absl::Seconds(seconds));
  meter.End(first, bytes);
  meter.End(second, bytes);
}

TEST(ReadRateMeterTest, KnowsNothingBeforeABusySecond) {
  ManualClock clock;
  ReadRateMeter meter({}, clock);
  const auto first = meter.Begin();
  const auto second = meter.Begin();
  clock.Advance(absl::Milliseconds(900));
  meter.End(first, 1000);
  meter.End(second, 1000);
  EXPECT_EQ(meter.report().bytes_per_second, 0);
}

TEST(ReadRateMeterTest, BeginsWithWhatTheDiskOnceSustained) {
  ManualClock clock;
  const ReadRateMeter meter({5e9}, clock);
  EXPECT_EQ(meter.report().bytes_per_second, 5e9);
  EXPECT_EQ(meter.report().sustained, 5e9);
}

TEST(ReadRateMeterTest, MeasuresReadsThatOverlap) {
  ManualClock clock;
  ReadRateMeter meter({}, clock);
  ReadTwice(meter, clock, 500);
  ReadTwice(meter, clock, 500);
  EXPECT_DOUBLE_EQ(meter.report().bytes_per_second, 1000);
}

TEST(ReadRateMeterTest, DoesNotCountTimeInWhichOneReadWasAlone) {
  ManualClock clock;
  ReadRateMeter meter({}, clock);
  const auto alone = meter.Begin();
  clock.Advance(absl::Seconds(3));  // it waits for its latency
  const auto second = meter.Begin();
  clock.Advance(absl::Seconds(1));
  meter.End(second, 600);
  meter.End(alone, 400);  // a quarter of it in the busy second
  ReadTwice(meter, clock, 200);
  // 600 in the first busy second, less a hundredth; 500 in the next.
  EXPECT_DOUBLE_EQ(meter.report().bytes_per_second, 594);
}

TEST(ReadRateMeterTest, ForgetsAHighRateSlowly) {
  ManualClock clock;
  ReadRateMeter meter({}, clock);
  ReadTwice(meter, clock, 5000);
  ReadTwice(meter, clock, 5000);
  ReadTwice(meter, clock, 500);
  EXPECT_DOUBLE_EQ(meter.report().bytes_per_second, 9900);
  for (int i = 0; i < 600; ++i) ReadTwice(meter, clock, 500);
  EXPECT_DOUBLE_EQ(meter.report().bytes_per_second, 1000);
}

TEST(ReadRateMeterTest, NamesADriveThrottledAfterABusyMinuteAndNotBefore) {
  ManualClock clock;
  ReadRateMeter meter({1000}, clock);
  for (int i = 0; i < 59; ++i) ReadTwice(meter, clock, 295);
  EXPECT_FALSE(meter.report().throttled);
  ReadTwice(meter, clock, 295);
  EXPECT_TRUE(meter.report().throttled);
  for (int i = 0; i < 60; ++i) ReadTwice(meter, clock, 305);
  EXPECT_FALSE(meter.report().throttled);
}

TEST(ReadRateMeterTest, CallsNoDriveThrottledThatWasNeverMeasured) {
  ManualClock clock;
  ReadRateMeter meter({}, clock);
  for (int i = 0; i < 100; ++i) ReadTwice(meter, clock, 1);
  EXPECT_FALSE(meter.report().throttled);
}

TEST(ReadRateMeterTest, IdleTimeIsNoSlowness) {
  ManualClock clock;
  ReadRateMeter meter({1000}, clock);
  for (int i = 0; i < 100; ++i) {
    ReadTwice(meter, clock, 500);
    clock.Advance(absl::Hours(1));
  }
  EXPECT_FALSE(meter.report().throttled);
  EXPECT_DOUBLE_EQ(meter.report().bytes_per_second, 1000);
}

}  // namespace
}  // namespace deltafin
