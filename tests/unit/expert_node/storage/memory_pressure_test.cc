#include "expert_node/storage/memory_pressure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr absl::Duration kInterval = absl::Milliseconds(500);

// A tier of 1,600 MiB, full of slices, that leaves 100 MiB to others.
class MemoryPolicyTest : public ::testing::Test {
 protected:
  uint64_t Next(int64_t headroom_mib) {
    reading_.headroom_bytes = headroom_mib * kMiB;
    return policy_.Next(reading_, policy_.capacity_bytes(), kInterval) / kMiB;
  }

  MemoryPolicy policy_{{1600 * kMiB, 200 * kMiB, 100 * kMiB}};
  MemoryReading reading_;
};

TEST_F(MemoryPolicyTest, LeavesATierAloneThatLeavesTheReserve) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Next(100), 1600u);
}

TEST_F(MemoryPolicyTest, ShrinksByWhatIsMissingAndAReserve) {
  EXPECT_EQ(Next(40), 1600u - 60 - 100);
}

TEST_F(MemoryPolicyTest, ShrinksAtOnceByWhatIsBeyondALimitThatWasLowered) {
  EXPECT_EQ(Next(-700), 1600u - 800 - 100);
}

TEST_F(MemoryPolicyTest, NeverShrinksBelowTheLeast) {
  EXPECT_EQ(Next(-5000), 200u);
  EXPECT_EQ(Next(-5000), 200u);
}

TEST_F(MemoryPolicyTest, GivesUpWhatTheTierMayTakeButHasNot) {
  reading_.headroom_bytes = 40 * kMiB;
  EXPECT_EQ(policy_.Next(reading_, 500 * kMiB, kInterval), 340u * kMiB);
}

TEST_F(MemoryPolicyTest, GrowsBackInStepsOnceItHasBeenCalm) {
  ASSERT_EQ(Next(-700), 700u);
  for (int i = 1; i < MemoryPolicy::kCalmReadings; ++i) {
    EXPECT_EQ(Next(5000), 700u);
  }
  EXPECT_EQ(Next(5000), 800u);
  EXPECT_EQ(Next(5000), 900u);
  for (int i = 0; i < 20; ++i) Next(5000);
  EXPECT_EQ(policy_.capacity_bytes() / kMiB, 1600u);
}

TEST_F(MemoryPolicyTest, GrowsNoFurtherThanTwoReservesRemain) {
  ASSERT_EQ(Next(-700), 700u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Next(200), 700u);
  EXPECT_EQ(Next(230), 730u);
}

TEST_F(MemoryPolicyTest, CountsWhatTheTierMayTakeAlreadyAsTaken) {
  ASSERT_EQ(Next(-700), 700u);
  reading_.headroom_bytes = 700 * kMiB;  // 500 of them are the tier's
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(policy_.Next(reading_, 200 * kMiB, kInterval), 700u * kMiB);
  }
}

TEST_F(MemoryPolicyTest, ShrinksAStepWhereTheProcessFaults) {
  Next(250);
  reading_.major_faults += MemoryPolicy::kManyFaults;
  EXPECT_EQ(Next(250), 1500u);
  EXPECT_EQ(Next(250), 1500u);  // no more of them
}

TEST_F(MemoryPolicyTest, ShrinksAStepWhereTasksWaitForMemory) {
  Next(250);
  reading_.stalled += kInterval * 0.2;
  EXPECT_EQ(Next(250), 1500u);
  reading_.stalled += kInterval * 0.05;
  EXPECT_EQ(Next(250), 1500u);
}

TEST_F(MemoryPolicyTest, IgnoresFaultsAndStallsWhereThereIsMuchMemory) {
  Next(301);
  reading_.major_faults += 10 * MemoryPolicy::kManyFaults;
  reading_.stalled += kInterval;
  EXPECT_EQ(Next(301), 1600u);
}

TEST_F(MemoryPolicyTest, TakesCountersOfBeforeForNoNews) {
  reading_.major_faults = 100'000;
  reading_.stalled = absl::Hours(1);
  EXPECT_EQ(Next(250), 1600u);
}

class ReadMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.File(path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  absl::StatusOr<MemoryReading> Read() {
    return ReadMemory({dir_.File("proc"), dir_.File("cgroup")});
  }

  const TempDir dir_;
};

TEST_F(ReadMemoryTest, TakesTheStallsOfItsGroup) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "4:memory:/old\n0::/job\n");
  Write("proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=999\n");
  Write("cgroup/job/memory.pressure",
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=1234\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
  const auto reading = Read();
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_EQ(reading->stalled, absl::Microseconds(1234));
  EXPECT_EQ(reading->headroom_bytes, 4096 * 1024);
}

TEST_F(ReadMemoryTest, TakesTheMachinesStallsWhereItsGroupCountsNone) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "4:memory:/old\n0::/job\n");
  Write("proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=999\n");
  EXPECT_EQ(Read()->stalled, absl::Microseconds(999));
}

TEST_F(ReadMemoryTest, KnowsNoStallsWhereTheKernelCountsNone) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  const auto reading = Read();
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_EQ(reading->stalled, absl::ZeroDuration());
}

TEST_F(ReadMemoryTest, IsUnavailableWhereTheKernelSaysNothing) {
  EXPECT_EQ(Read().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace deltafin
