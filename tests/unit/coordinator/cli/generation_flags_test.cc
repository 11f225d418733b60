#include "coordinator/cli/generation_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/net/exit_code.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<GenerationRequest> Parse(std::vector<std::string> words) {
  CLI::App app;
  GenerationFlags flags(16);
  flags.AddTo(app);
  flags.AddLogprobsTo(app);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(words);
  return flags.Request();
}

TEST(GenerationFlagsTest, DefaultsAreGreedy) {
  const auto request = Parse({});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->sampling.temperature, 0);
  EXPECT_EQ(request->sampling.seed, 0u);
  EXPECT_EQ(request->sampling.top_p, 1);
  EXPECT_EQ(request->sampling.repetition_penalty, 1);
  EXPECT_EQ(request->max_new_tokens, 16);
}

TEST(GenerationFlagsTest, ZeroSwitchesOffAsOnTheWire) {
  const auto request = Parse({"--top-p", "0", "--repetition-penalty", "0"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->sampling.top_p, 1);
  EXPECT_EQ(request->sampling.repetition_penalty, 1);
}

TEST(GenerationFlagsTest, SeedTakesAll64Bits) {
  EXPECT_EQ(Parse({"--seed", "18446744073709551615"})->sampling.seed,
            UINT64_MAX);
}

TEST(GenerationFlagsTest, ValuesOutsideTheSamplersRangesNameTheFlag) {
  const std::pair<const char*, const char*> bad[] = {
      {"--seed", "18446744073709551616"},
      {"--seed", "-1"},
      {"--seed", "1x"},
      {"--temperature", "-1"},
      {"--temperature", "nan"},
      {"--temperature", "1e-5"},
      {"--temperature", "101"},
      {"--top-k", "-1"},
      {"--top-p", "1.5"},
      {"--top-p", "-0.1"},
      {"--min-p", "1.1"},
      {"--presence-penalty", "2.1"},
      {"--presence-penalty", "-50"},
      {"--frequency-penalty", "3"},
      {"--repetition-penalty", "0.001"},
      {"--repetition-penalty", "inf"},
      {"--logprobs", "21"},
      {"--logprobs", "-1"},
      {"--stop", "\xff"},
  };
  for (const auto& [flag, value] : bad) {
    const absl::Status status = Parse({flag, value}).status();
    EXPECT_EQ(ExitCodeOf(status), kExitUsage) << flag << " " << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(flag)) << value;
  }
}

}  // namespace
}  // namespace deltafin
