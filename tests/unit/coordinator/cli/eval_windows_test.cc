#include "coordinator/cli/eval_windows.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(EvalWindowsTest, EachBeginsWithBosAndTheTextIsCoveredOnce) {
  const std::vector<int32_t> ids{1, 2, 3, 4, 5};
  EXPECT_EQ(CutWindows(ids, 99, 3, 0),
            (Windows{{99, 1, 2}, {99, 3, 4}, {99, 5}}));
}

TEST(EvalWindowsTest, StopsAtTheMostWindows) {
  const std::vector<int32_t> ids{1, 2, 3, 4, 5};
  EXPECT_EQ(CutWindows(ids, 99, 3, 2), (Windows{{99, 1, 2}, {99, 3, 4}}));
}

TEST(EvalWindowsTest, AShortTextIsOneWindow) {
  EXPECT_EQ(CutWindows(std::vector<int32_t>{7}, 99, 4096, 1),
            (Windows{{99, 7}}));
  EXPECT_EQ(CutWindows({}, 99, 4096, 1), Windows{});
}

}  // namespace
}  // namespace deltafin
