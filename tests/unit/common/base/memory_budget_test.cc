#include "common/base/memory_budget.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

// A made-up /proc and /sys/fs/cgroup.
class AvailableMemoryTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.File(path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  MemorySources sources() const {
    return {dir_.File("proc"), dir_.File("cgroup")};
  }

  TempDir dir_;
};

TEST_F(AvailableMemoryTest, IsMemAvailableWithoutGroups) {
  Write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n");
  EXPECT_EQ(*AvailableMemory(sources()), 4096u * 1024);
}

TEST_F(AvailableMemoryTest, IsBoundByAVersion2Group) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "0::/user/job\n");
  Write("cgroup/user/job/memory.max", "max\n");
  Write("cgroup/user/job/memory.current", "5\n");
  Write("cgroup/user/memory.max", "1000000\n");
  Write("cgroup/user/memory.current", "900000\n");
  Write("cgroup/user/memory.stat",
        "anon 1\ninactive_file 300000\nactive_file 100000\n");
  EXPECT_EQ(*AvailableMemory(sources()), 500000u);
}

TEST_F(AvailableMemoryTest, IsBoundByAVersion1GroupSeenAsTheRoot) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/abc\n");
  Write("cgroup/memory/memory.limit_in_bytes", "700000\n");
  Write("cgroup/memory/memory.usage_in_bytes", "400000\n");
  Write("cgroup/memory/memory.stat", "total_inactive_file 100000\n");
  EXPECT_EQ(*AvailableMemory(sources()), 400000u);
}

TEST_F(AvailableMemoryTest, IsBoundByTheSoftLimitOfAVersion2Group) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "0::/job\n");
  Write("cgroup/job/memory.max", "max\n");
  Write("cgroup/job/memory.high", "600000\n");
  Write("cgroup/job/memory.current", "500000\n");
  EXPECT_EQ(*AvailableMemory(sources()), 100000u);
  Write("cgroup/job/memory.max", "550000\n");
  EXPECT_EQ(*AvailableMemory(sources()), 50000u);
}

TEST_F(AvailableMemoryTest, HeadroomIsBelowZeroByWhatIsBeyondTheLimit) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "0::/job\n");
  Write("cgroup/job/memory.high", "600000\n");
  Write("cgroup/job/memory.current", "900000\n");
  Write("cgroup/job/memory.stat", "inactive_file 100000\n");
  EXPECT_EQ(*MemoryHeadroom(sources()), -200000);
  EXPECT_EQ(*AvailableMemory(sources()), 0u);
}

TEST_F(AvailableMemoryTest, IsNothingWhenTheGroupIsFull) {
  Write("proc/meminfo", "MemAvailable: 4096 kB\n");
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/memory.max", "1000\n");
  Write("cgroup/memory.current", "2000\n");
  EXPECT_EQ(*AvailableMemory(sources()), 0u);
}

TEST_F(AvailableMemoryTest, IsUnavailableWhenTheKernelDoesNotSay) {
  EXPECT_EQ(AvailableMemory(sources()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(AvailableMemoryHereTest, IsPositive) {
  const auto bytes = AvailableMemory();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 0u);
}

TEST(ByteSizeTest, ParsesWhatPeopleWrite) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("1234"), 1234u);
  EXPECT_EQ(*ParseByteSize("1234B"), 1234u);
  EXPECT_EQ(*ParseByteSize("512K"), 512u << 10);
  EXPECT_EQ(*ParseByteSize("512m"), 512u << 20);
  EXPECT_EQ(*ParseByteSize("8GB"), uint64_t{8} << 30);
  EXPECT_EQ(*ParseByteSize("8GiB"), uint64_t{8} << 30);
  EXPECT_EQ(*ParseByteSize("1.5T"), uint64_t{3} << 39);
}

TEST(ByteSizeTest, RefusesTheRest) {
  for (const char* text : {"", "G", "-1", "1 G", "8X", "8GG", "1e3", "0x10",
                           "nan", "inf", "99999999P", "8Gi"}) {
    const auto bytes = ParseByteSize(text);
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_NE(bytes.status().message().find(text), absl::string_view::npos);
  }
}

TEST(ByteSizeTest, FormatsThreeDigits) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1024), "1.00 KiB");
  EXPECT_EQ(FormatByteSize(17'547'264), "16.7 MiB");
  EXPECT_EQ(FormatByteSize(113'509'540'864), "106 GiB");
  EXPECT_EQ(FormatByteSize(1'446'456'066'048), "1.32 TiB");
  EXPECT_EQ(FormatByteSize(~uint64_t{0}), "16.0 EiB");
}

TEST(MemoryBudgetTest, FitsUpToTheLastByte) {
  MemoryBudget budget(3000);
  budget.Add("spine", 1000);
  budget.Add("experts", 2000);
  EXPECT_TRUE(budget.Check().ok());
  budget.Add("reserve", 1);
  EXPECT_EQ(budget.Check().code(), absl::StatusCode::kResourceExhausted);
}

TEST(MemoryBudgetTest, RefusesWithEveryNumber) {
  MemoryBudget budget(uint64_t{8} << 30);
  budget.Add("spine", uint64_t{58} << 30);
  budget.Add("expert tier", uint64_t{4} << 30);
  const std::string message(budget.Check().message());
  for (const char* part : {"62.0 GiB", "8.00 GiB", "spine", "58.0 GiB",
                           "expert tier", "4.00 GiB"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << message;
  }
}

TEST(MemoryBudgetTest, DoesNotWrapAround) {
  MemoryBudget budget(1000);
  budget.Add("a", ~uint64_t{0});
  budget.Add("b", 5);
  EXPECT_EQ(budget.total(), ~uint64_t{0});
  EXPECT_FALSE(budget.Check().ok());
}

}  // namespace
}  // namespace deltafin
