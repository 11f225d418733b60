#include "tests/testing/lan_cable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds kMillisecond = 1'000'000;

TEST(LanCableTest, APacketTakesItsDelayAndItsTimeAtTheRate) {
  std::mt19937_64 random(1);
  LanCable cable;
  ASSERT_TRUE(cable.Set("delay_us=150 rate=1000000000"));
  // 1,250 bytes take 10 us at 1 Gbit/s; the second waits for the first.
  EXPECT_EQ(cable.Up(0, 1250, random), 160'000);
  EXPECT_EQ(cable.Up(0, 1250, random), 170'000);
  // Directions do not wait for each other.
  EXPECT_EQ(cable.Down(0, 1250, random), 160'000);
}

TEST(LanCableTest, AQueueThatIsFullLosesPackets) {
  std::mt19937_64 random(1);
  LanCable cable;
  ASSERT_TRUE(cable.Set("rate=8000 queue_bytes=2000"));  // a byte a ms
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cable.Up(0, 1000, random));
  EXPECT_FALSE(cable.Up(0, 1000, random).has_value());
  EXPECT_TRUE(cable.Up(1001 * kMillisecond, 1000, random));
  EXPECT_THAT(cable.Stats(), HasSubstr("overflowed=1 "));
}

TEST(LanCableTest, LosesTheShareOfPacketsThatItIsToldTo) {
  std::mt19937_64 random(7);
  LanCable cable;
  ASSERT_TRUE(cable.Set("loss=10"));
  int arrived = 0;
  for (int i = 0; i < 10'000; ++i) arrived += cable.Up(i, 100, random) ? 1 : 0;
  // 9,000 expected, standard deviation 30.
  EXPECT_NEAR(arrived, 9000, 150);
}

TEST(LanCableTest, HoldsSomePacketsBackSoThatOthersOvertake) {
  std::mt19937_64 random(7);
  LanCable cable;
  ASSERT_TRUE(cable.Set("delay_us=100 reorder=50"));
  int held_back = 0;
  for (int i = 0; i < 1000; ++i) {
    held_back += *cable.Up(0, 100, random) == 100'000 + kMillisecond ? 1 : 0;
  }
  EXPECT_NEAR(held_back, 500, 80);
}

TEST(LanCableTest, WhileDownNothingGoesInAndNothingComesOut) {
  std::mt19937_64 random(1);
  LanCable cable;
  EXPECT_TRUE(cable.Down(0, 100, random));
  ASSERT_TRUE(cable.Set("down=1"));
  EXPECT_FALSE(cable.Arrive(100));  // was under way
  EXPECT_FALSE(cable.Up(0, 100, random).has_value());
  EXPECT_FALSE(cable.Down(0, 100, random).has_value());
  ASSERT_TRUE(cable.Set("down=0"));
  EXPECT_TRUE(cable.Arrive(100));
  EXPECT_THAT(cable.Stats(), HasSubstr("cut=3"));
}

TEST(LanCableTest, RefusesSettingsThatAreNone) {
  LanCable cable;
  for (const char* text : {"loss=101", "down=2", "speed=1", "loss", "loss=x",
                           "loss=-1", "delay_us=1x"}) {
    EXPECT_FALSE(cable.Set(text)) << text;
  }
}

}  // namespace
}  // namespace deltafin::testing
