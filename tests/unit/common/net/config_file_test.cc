#include "common/net/config_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "proto/config.pb.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

class ConfigFileTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfigFile(path_, &config_);
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("node.conf");
  v1::NodeConfig config_;
};

TEST_F(ConfigFileTest, ReadsFieldsAndComments) {
  const absl::Status status =
      Read("# a node\nmodel: \"/models/K3\"\nthreads: 8\n");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config_.model(), "/models/K3");
  EXPECT_EQ(config_.threads(), 8u);
}

TEST_F(ConfigFileTest, NamesTheLineOfAnUnknownField) {
  const absl::Status status = Read("model: \"m\"\n\nthread: 8\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_EQ(message.find(path_ + ":3:"), 0u) << message;
  EXPECT_NE(message.find("thread"), std::string::npos) << message;
}

TEST_F(ConfigFileTest, NamesTheLineOfAValueOfTheWrongType) {
  const absl::Status status = Read("model: \"m\"\nthreads: \"many\"\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).find(path_ + ":2:"), 0u) << status;
}

TEST_F(ConfigFileTest, SaysWhichFileIsMissing) {
  const absl::Status status = ReadConfigFile(dir_.File("none"), &config_);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find(dir_.File("none")),
            std::string::npos);
}

}  // namespace
}  // namespace deltafin
