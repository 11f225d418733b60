#include "expert_node/options.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

v1::NodeConfig GoodConfig() {
  v1::NodeConfig config;
  config.set_model("/models/K3");
  config.set_listen("127.0.0.1:7400");
  return config;
}

TEST(ExpertNodeOptionsTest, TakesEveryFieldOfTheConfiguration) {
  v1::NodeConfig config = GoodConfig();
  config.set_ram("3M");
  config.set_threads(5);
  config.set_kernel("reference");
  const auto options = OptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model_dir, "/models/K3");
  EXPECT_EQ(options->listen, "127.0.0.1:7400");
  EXPECT_EQ(options->ram_bytes, uint64_t{3} << 20);
  EXPECT_EQ(options->num_threads, 5);
  EXPECT_STREQ(options->kernel->name, "reference");
}

TEST(ExpertNodeOptionsTest, TakesCardsAndTheirMemory) {
  v1::NodeConfig config = GoodConfig();
  EXPECT_TRUE(OptionsFromConfig(config)->cards.empty());
  config.set_device("cuda:1,0");
  config.set_device_ram("3G");
  const auto options = OptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->cards, std::vector<int>({1, 0}));
  EXPECT_EQ(options->card_ram_bytes, uint64_t{3} << 30);
  config.set_device("tpu");
  const absl::Status bad = OptionsFromConfig(config).status();
  EXPECT_NE(bad.message().find("device: 'tpu'"), std::string::npos) << bad;
  config.clear_device();
  const absl::Status alone = OptionsFromConfig(config).status();
  EXPECT_NE(alone.message().find("device_ram: is for a device"),
            std::string::npos)
      << alone;
}

TEST(ExpertNodeOptionsTest, TheKeepaliveBoundIsBounded) {
  v1::NodeConfig config = GoodConfig();
  EXPECT_EQ(OptionsFromConfig(config)->keepalive_bound, absl::Seconds(5));
  config.set_keepalive_ms(2000);
  EXPECT_EQ(OptionsFromConfig(config)->keepalive_bound, absl::Seconds(2));
  for (const uint32_t bad : {1u, 1999u, 600001u, ~0u}) {
    config.set_keepalive_ms(bad);
    const absl::Status status = OptionsFromConfig(config).status();
    EXPECT_NE(status.message().find("keepalive_ms: " + std::to_string(bad)),
              std::string::npos)
        << status;
  }
}

TEST(NodeJoinOptionsTest, JoiningNeedsADataFolder) {
  v1::NodeConfig config = GoodConfig();
  ASSERT_TRUE(JoinOptionsFromConfig(config).ok());
  EXPECT_EQ(JoinOptionsFromConfig(config)->coordinator, "");
  config.set_join("127.0.0.1:8500");
  const auto lacking = JoinOptionsFromConfig(config).status();
  EXPECT_NE(std::string(lacking.message()).find("data: missing"),
            std::string::npos);
  config.set_data("/d");
  config.set_advertise("127.0.0.1:7401");
  const auto options = JoinOptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "127.0.0.1:8500");
  EXPECT_EQ(options->data_dir, "/d");
  EXPECT_EQ(options->advertise, "127.0.0.1:7401");
}

TEST(ExpertNodeOptionsTest, WhoJoinsWithoutAModelHoldsItsShare) {
  v1::NodeConfig config = GoodConfig();
  config.set_join("127.0.0.1:8500");
  config.set_data("/d");
  ASSERT_TRUE(OptionsFromConfig(config).ok());
  EXPECT_FALSE(OptionsFromConfig(config)->share);
  config.set_model("");
  config.set_quota("3G");
  config.set_reserve("5M");
  auto options = OptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_TRUE(options->share);
  EXPECT_EQ(options->model_dir, "/d/model");
  EXPECT_EQ(options->share->experts_folder, "/d/experts");
  EXPECT_EQ(options->share->quota_bytes, uint64_t{3} << 30);
  EXPECT_EQ(options->share->reserve_bytes, uint64_t{5} << 20);
  EXPECT_FALSE(options->share->repository);
  config.set_model("owner/name@v1");
  options = OptionsFromConfig(config);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_TRUE(options->share && options->share->repository);
  EXPECT_EQ(options->share->repository->repository, "owner/name");
  EXPECT_EQ(options->share->repository->revision, "v1");
}

TEST(ExpertNodeOptionsTest, AQuotaIsForAShare) {
  v1::NodeConfig config = GoodConfig();
  config.set_quota("3G");
  EXPECT_NE(std::string(OptionsFromConfig(config).status().message())
                .find("quota and reserve"),
            std::string::npos);
  config.set_quota("much");
  EXPECT_NE(
      std::string(OptionsFromConfig(config).status().message()).find("quota: "),
      std::string::npos);
}

TEST(NodeJoinOptionsTest, AddressesNeedAPort) {
  v1::NodeConfig config = GoodConfig();
  config.set_data("/d");
  for (const char* bad : {"127.0.0.1", "127.0.0.1:0", ":1", "a:b"}) {
    config.set_join(bad);
    EXPECT_EQ(JoinOptionsFromConfig(config).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(ExpertNodeOptionsTest, NamesEveryBadFieldAtOnce) {
  v1::NodeConfig config;
  config.set_listen("0.0.0.0:7400");
  config.set_ram("lots");
  config.set_threads(5000);
  config.set_kernel("z80");
  const auto options = OptionsFromConfig(config);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(options.status().message());
  for (const char* part :
       {"model: missing", "listen: refused to listen on 0.0.0.0:7400",
        "ram: ", "lots", "threads: 5000", "kernel: ", "z80"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
}

TEST(ExpertNodeOptionsTest, ListensBeyondLoopbackWithCredentials) {
  v1::NodeConfig config = GoodConfig();
  config.set_listen("0.0.0.0:7400");
  config.set_join("192.168.77.1:8500");
  config.set_data("/var/lib/deltafin");
  EXPECT_FALSE(OptionsFromConfig(config).ok());
  EXPECT_FALSE(JoinOptionsFromConfig(config).ok());
  config.set_cluster_token_file("/etc/deltafin/token");
  EXPECT_TRUE(OptionsFromConfig(config).ok());
  EXPECT_TRUE(JoinOptionsFromConfig(config).ok());
  config.set_tls_ca("/etc/deltafin/ca.crt");
  EXPECT_NE(std::string(OptionsFromConfig(config).status().message())
                .find("credentials: "),
            std::string::npos);
}

}  // namespace
}  // namespace deltafin
