#include "common/base/progress.h"

#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/manual_clock.h"

namespace deltafin {
namespace {

TEST(ProgressLineTest, SaysPartRateAndTimeLeft) {
  EXPECT_EQ(ProgressLine("hashing", 1 << 20, 4 << 20, absl::Seconds(2)),
            "hashing  25%  1.00 MiB of 4.00 MiB  512 KiB/s  0:06 left");
  EXPECT_EQ(ProgressLine("x", 1024, uint64_t{1024} * 8000, absl::Seconds(1)),
            "x  0%  1.00 KiB of 7.81 MiB  1.00 KiB/s  2:13:19 left");
}

TEST(ProgressLineTest, PromisesNothingBeforeTheStartOrAfterTheEnd) {
  EXPECT_EQ(ProgressLine("x", 0, 2048, absl::Seconds(2)),
            "x  0%  0 B of 2.00 KiB");
  EXPECT_EQ(ProgressLine("x", 2048, 2048, absl::Seconds(2)),
            "x  100%  2.00 KiB of 2.00 KiB  1.00 KiB/s");
}

TEST(ProgressTest, IsSilentWhereThereIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  {
    ManualClock clock;
    Progress progress("x", file, clock);
    progress.Update(1, 2);
    progress.Update(2, 2);
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

// What a terminal shows.
class ProgressTerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    int slave = -1;
    ASSERT_EQ(openpty(&master_, &slave, nullptr, nullptr, nullptr), 0);
    terminal_ = fdopen(slave, "w");
    ASSERT_NE(terminal_, nullptr);
  }
  void TearDown() override {
    if (terminal_ != nullptr) std::fclose(terminal_);
    close(master_);
  }
  // Closes the terminal: a read of its other end may return less than is to
  // come, and fails once all has been read.
  std::string Shown() {
    std::fclose(std::exchange(terminal_, nullptr));
    std::string shown;
    char text[4096];
    for (ssize_t got; (got = read(master_, text, sizeof(text))) > 0;) {
      shown.append(text, got);
    }
    return shown;
  }
  static int CountLines(const std::string& text) {
    return std::count(text.begin(), text.end(), 'x');
  }

  int master_ = -1;
  std::FILE* terminal_ = nullptr;
};

TEST_F(ProgressTerminalTest, RedrawsAtMostTenTimesASecondAndAtTheEnd) {
  ManualClock clock;
  {
    Progress progress("x", terminal_, clock);
    for (int i = 1; i < 100; ++i) {
      clock.Advance(absl::Milliseconds(10));
      progress.Update(i, 100);
    }
    progress.Update(100, 100);
  }
  const std::string shown = Shown();
  EXPECT_EQ(CountLines(shown), 11) << shown;
  EXPECT_NE(shown.find("100%"), std::string::npos);
  EXPECT_EQ(shown.back(), '\n');
}

}  // namespace
}  // namespace deltafin
