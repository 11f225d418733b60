#include "common/base/log.h"

#include <cstdlib>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

TEST(LogTest, TakesTheNamedLevels) {
  for (const char* level : {"trace", "debug", "warn", "error", "off", "info"}) {
    EXPECT_TRUE(SetLogLevel(level).ok()) << level;
  }
  EXPECT_EQ(spdlog::get_level(), spdlog::level::info);
}

TEST(LogTest, RefusesAnUnknownLevelAndListsTheNames) {
  const absl::Status status = SetLogLevel("loud");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'loud'"), absl::string_view::npos);
  EXPECT_NE(status.message().find("debug, info"), absl::string_view::npos);
}

TEST(LogTest, ControlCharactersOfAMessageAreNotObeyed) {
  EXPECT_EXIT(
      {
        InitLogging("test");
        spdlog::warn("node {} is\nthere", "a\x1b[2J");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "test warning node a\\?\\[2J is\nthere");
}

TEST(CheckDeathTest, AbortsWithConditionAndMessage) {
  CHECK(1 + 1 == 2);
  CHECK_OK(absl::OkStatus());
  EXPECT_DEATH(
      {
        InitLogging("test");
        CHECK(1 > 2, "one is small");
      },
      "check failed: 1 > 2: one is small");
  EXPECT_DEATH(
      {
        InitLogging("test");
        CHECK_OK(absl::NotFoundError("no such thing"));
      },
      "NOT_FOUND: no such thing");
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  ASSIGN_OR_RETURN(const int half, Half(value));
  RETURN_IF_ERROR(AddContext(Half(half).status(), "second half"));
  return half / 2;
}

TEST(StatusMacrosTest, ReturnEarlyWithCodeAndContext) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(3).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(Quarter(6).status(),
            absl::InvalidArgumentError("second half: odd"));
}

}  // namespace
}  // namespace deltafin
