#include "coordinator/cli/coordinator_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "common/net/exit_code.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CoordinatorFlagsTest : public ::testing::Test {
 protected:
  absl::StatusOr<CoordinatorOptions> Parse(std::vector<std::string> words) {
    CLI::App app;
    CoordinatorFlags flags;
    flags.AddTo(app);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
    return flags.Options();
  }
  std::string ConfigFile(const std::string& text) {
    const std::string path = folder_.File("config.txtpb");
    std::ofstream(path) << text;
    return path;
  }
  const TempDir folder_;
};

TEST_F(CoordinatorFlagsTest, NodesAreSeparatedByCommas) {
  const auto options =
      Parse({"--model", "/m", "--nodes", "127.0.0.1:1,127.0.0.2:2"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->nodes, ElementsAre("127.0.0.1:1", "127.0.0.2:2"));
}

TEST_F(CoordinatorFlagsTest, SpacesAroundNodesAreNoPartOfThem) {
  const auto options =
      Parse({"--model", "/m", "--nodes", " 127.0.0.1:1, 127.0.0.2:2 ,[::1]:3"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->nodes,
              ElementsAre("127.0.0.1:1", "127.0.0.2:2", "[::1]:3"));
}

TEST_F(CoordinatorFlagsTest, EmptyNodesAreUsageErrors) {
  for (const char* nodes :
       {"", " ", ",", "127.0.0.1:1,", "127.0.0.1:1,,127.0.0.2:2",
        "127.0.0.1:1 127.0.0.2:2"}) {
    const auto status = Parse({"--model", "/m", "--nodes", nodes}).status();
    EXPECT_EQ(ExitCodeOf(status), kExitUsage) << nodes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("host:port"));
  }
}

TEST_F(CoordinatorFlagsTest, FlagsOverrideTheFile) {
  const std::string path = ConfigFile(
      "model: \"/m\" threads: 3 nodes: \"127.0.0.1:1\" spine: \"int8\"");
  const auto options =
      Parse({"--config", path, "--threads", "5", "--nodes", "127.0.0.3:3"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model_dir, "/m");
  EXPECT_EQ(options->num_threads, 5);
  EXPECT_EQ(options->precision, SpinePrecision::kInt8);
  EXPECT_THAT(options->nodes, ElementsAre("127.0.0.3:3"));
}

TEST_F(CoordinatorFlagsTest, BadFlagIsUsageAndBadFileIsInput) {
  EXPECT_EQ(ExitCodeOf(Parse({"--spine", "fp4"}).status()), kExitUsage);
  const auto bad_value = Parse({"--config", ConfigFile("spine: \"fp4\"")});
  EXPECT_EQ(ExitCodeOf(bad_value.status()), kExitBadInput);
  EXPECT_THAT(std::string(bad_value.status().message()), HasSubstr("fp4"));
}

TEST_F(CoordinatorFlagsTest, UnknownFieldIsNamedWithItsLine) {
  const std::string path = ConfigFile("threads: 2\nspines: \"bf16\"\n");
  const auto options = Parse({"--config", path});
  EXPECT_EQ(ExitCodeOf(options.status()), kExitBadInput);
  EXPECT_THAT(std::string(options.status().message()),
              ::testing::AllOf(HasSubstr(path + ":2"), HasSubstr("spines")));
}

TEST_F(CoordinatorFlagsTest, RandomPlacementTakesASeed) {
  EXPECT_EQ(
      Parse({"--model", "/m", "--test-placement", "random:12"})->placement_seed,
      12u);
  EXPECT_EQ(
      ExitCodeOf(
          Parse({"--model", "/m", "--test-placement", "random:"}).status()),
      kExitUsage);
}

}  // namespace
}  // namespace deltafin
