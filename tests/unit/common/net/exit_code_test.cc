#include "common/net/exit_code.h"

#include <gtest/gtest.h>

#include <csignal>

namespace deltafin {
namespace {

TEST(ExitCodeTest, FollowsTheStatus) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::OutOfRangeError("overflow")), 1);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 1);
  EXPECT_EQ(ExitCodeOf(UsageError("x")), 64);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), 65);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), 65);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("x")), 65);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("x")), 69);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("x")), 69);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("x")), 69);
}

TEST(ExitCodeTest, ASignalAddsItsNumberTo128) {
  EXPECT_EQ(ExitCodeOf(InterruptedError(SIGINT)), 130);
  EXPECT_EQ(ExitCodeOf(InterruptedError(SIGTERM)), 143);
  EXPECT_EQ(ExitCodeOf(InterruptedError(SIGHUP)), 129);
  EXPECT_EQ(InterruptedError(SIGTERM).message(), "interrupted by SIGTERM");
}

TEST(ExitCodeTest, AChildsCodeIsPassedOn) {
  EXPECT_EQ(ExitCodeOf(WithExitCode(absl::AbortedError("x"), 64)), 64);
}

TEST(ExitCodeTest, UsageErrorKeepsItsMessage) {
  EXPECT_EQ(UsageError("--x: no").message(), "--x: no");
}

}  // namespace
}  // namespace deltafin
