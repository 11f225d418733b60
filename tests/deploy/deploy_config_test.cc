// The settings files in deploy/config.

#include <gtest/gtest.h>

#include "common/net/config_file.h"
#include "coordinator/options.h"
#include "expert_node/options.h"

namespace deltafin {
namespace {

constexpr char kFolder[] = DELTAFIN_SOURCE_DIR "/deploy/config/";

TEST(DeployConfigTest, TheCoordinatorTakesItsExample) {
  v1::CoordinatorConfig config;
  const absl::Status read =
      ReadConfigFile(std::string(kFolder) + "coordinator.txtpb", &config);
  ASSERT_TRUE(read.ok()) << read;
  const auto options = ParseCoordinatorOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->cluster);
  EXPECT_FALSE(options->state_dir.empty());
  EXPECT_EQ(options->metrics_listen, "127.0.0.1:8501");
}

TEST(DeployConfigTest, TheNodeTakesItsExample) {
  v1::NodeConfig config;
  const absl::Status read =
      ReadConfigFile(std::string(kFolder) + "node.txtpb", &config);
  ASSERT_TRUE(read.ok()) << read;
  const auto options = OptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  const auto join = JoinOptionsFromConfig(config);
  ASSERT_TRUE(join.ok()) << join.status();
  EXPECT_EQ(join->coordinator, "127.0.0.1:8500");
}

}  // namespace
}  // namespace deltafin
