#include "coordinator/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CoordinatorOptionsTest, DefaultsNeedNoField) {
  const auto options = ParseCoordinatorOptions({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->nodes.empty());
  EXPECT_EQ(options->precision, SpinePrecision::kBf16);
  EXPECT_EQ(options->device, "cpu");
  EXPECT_EQ(options->prefill_chunk, 512);
  EXPECT_FALSE(options->ram_bytes.has_value());
  EXPECT_FALSE(options->prefix_cache_bytes.has_value());
  EXPECT_EQ(options->speculation, SpeculationMode::kAuto);
}

TEST(CoordinatorOptionsTest, ReadsEveryField) {
  v1::CoordinatorConfig config;
  config.set_model("/m");
  config.add_nodes("a:1");
  config.add_nodes("[::1]:65535");
  config.set_spine("int8");
  config.set_device("cpu");
  config.set_kernel("reference");
  config.set_threads(3);
  config.set_prefill_chunk(9);
  config.set_ram("2G");
  config.set_context(77);
  config.set_max_sequences(5);
  config.set_cache_dir("/c");
  config.set_layer_deadline_ms(1500);
  config.set_prefix_cache("0");
  config.set_speculate("force");
  const auto options = ParseCoordinatorOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model_dir, "/m");
  EXPECT_EQ(options->nodes.size(), 2u);
  EXPECT_EQ(options->precision, SpinePrecision::kInt8);
  EXPECT_EQ(options->device, "cpu");
  EXPECT_EQ(options->kernel, "reference");
  EXPECT_EQ(options->num_threads, 3);
  EXPECT_EQ(options->prefill_chunk, 9);
  EXPECT_EQ(options->ram_bytes, uint64_t{2} << 30);
  EXPECT_EQ(options->context_tokens, 77);
  EXPECT_EQ(options->max_sequences, 5);
  EXPECT_EQ(options->cache_dir, "/c");
  EXPECT_EQ(options->layer_deadline, absl::Milliseconds(1500));
  EXPECT_EQ(options->prefix_cache_bytes, uint64_t{0});
  EXPECT_EQ(options->speculation, SpeculationMode::kForce);
}

TEST(CoordinatorOptionsTest, ReadsCopiesHedgingAndKeepalive) {
  const auto defaults = ParseCoordinatorOptions({});
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->copies, 1);
  EXPECT_EQ(defaults->copy_bytes_per_second, 0u);
  EXPECT_EQ(defaults->rebalance_after, absl::Minutes(5));
  EXPECT_EQ(defaults->hedge_budget, 0);
  EXPECT_EQ(defaults->keepalive_bound, absl::Seconds(5));
  v1::CoordinatorConfig config;
  config.set_copies(2);
  config.set_copy_budget("100M");
  config.set_rebalance_after_s(60);
  config.set_hedge_budget(5);
  config.set_keepalive_ms(2500);
  const auto options = ParseCoordinatorOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->copies, 2);
  EXPECT_EQ(options->copy_bytes_per_second, uint64_t{100} << 20);
  EXPECT_EQ(options->rebalance_after, absl::Minutes(1));
  EXPECT_DOUBLE_EQ(options->hedge_budget, 0.05);
  EXPECT_EQ(options->keepalive_bound, absl::Milliseconds(2500));
}

TEST(CoordinatorOptionsTest, RefusesCopiesHedgingAndKeepaliveOutOfRange) {
  v1::CoordinatorConfig config;
  config.set_copies(17);
  config.set_copy_budget("10");
  config.set_rebalance_after_s(86401);
  config.set_hedge_budget(101);
  config.set_keepalive_ms(1999);
  const std::string message(ParseCoordinatorOptions(config).status().message());
  EXPECT_THAT(message,
              AllOf(HasSubstr("copies: '17'"), HasSubstr("copy_budget: '10'"),
                    HasSubstr("rebalance_after_s: '86401'"),
                    HasSubstr("hedge_budget: '101'"),
                    HasSubstr("keepalive_ms: '1999'")));
  config.set_keepalive_ms(600001);
  EXPECT_THAT(std::string(ParseCoordinatorOptions(config).status().message()),
              HasSubstr("keepalive_ms: '600001'"));
}

TEST(CoordinatorOptionsTest, ExpertsRunHereUnlessOthersHaveThem) {
  v1::CoordinatorConfig config;
  EXPECT_TRUE(ParseCoordinatorOptions(config)->has_own_node());
  config.set_cluster(true);
  EXPECT_FALSE(ParseCoordinatorOptions(config)->has_own_node());
  config.set_own_experts(true);
  EXPECT_TRUE(ParseCoordinatorOptions(config)->has_own_node());
}

TEST(CoordinatorOptionsTest, ANodeIsGoneAfterThreeHeartbeatsAtLeast) {
  v1::CoordinatorConfig config;
  EXPECT_EQ(ParseCoordinatorOptions(config)->limits.gone_after,
            absl::Seconds(5));
  config.set_heartbeat_ms(4000);
  auto options = ParseCoordinatorOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->limits.heartbeat, absl::Seconds(4));
  EXPECT_EQ(options->limits.gone_after, absl::Seconds(20));
  config.set_gone_after_ms(11999);
  EXPECT_THAT(std::string(ParseCoordinatorOptions(config).status().message()),
              HasSubstr("at least three heartbeats"));
  config.set_gone_after_ms(12000);
  EXPECT_TRUE(ParseCoordinatorOptions(config).ok());
}

TEST(CoordinatorOptionsTest, OtherDevicesTakeAPartOfTheSpine) {
  v1::CoordinatorConfig config;
  config.set_device("cuda:1");
  config.set_spine("int8");
  config.set_device_ram("3G");
  config.set_spine_ram("1G");
  const auto options = ParseCoordinatorOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->device, "cuda:1");
  EXPECT_EQ(options->precision, SpinePrecision::kInt8);
  EXPECT_EQ(options->device_ram_bytes, uint64_t{3} << 30);
  EXPECT_EQ(options->spine_ram_bytes, uint64_t{1} << 30);
}

TEST(CoordinatorOptionsTest, DeviceMemoryIsForAnotherDeviceThanTheCpu) {
  v1::CoordinatorConfig config;
  config.set_device_ram("3G");
  EXPECT_THAT(std::string(ParseCoordinatorOptions(config).status().message()),
              HasSubstr("another device than cpu"));
  config.clear_device_ram();
  config.set_device("torch-cpu");
  config.set_spine_ram("1G");
  EXPECT_THAT(std::string(ParseCoordinatorOptions(config).status().message()),
              HasSubstr("on the host only"));
  for (const char* device : {"cuda:", "cuda:x", "cuda:123", "gpu"}) {
    v1::CoordinatorConfig bad;
    bad.set_device(device);
    EXPECT_FALSE(ParseCoordinatorOptions(bad).ok()) << device;
  }
}

TEST(CoordinatorOptionsTest, RoomForNoExpertIsRefused) {
  v1::CoordinatorConfig config;
  config.set_ram("0");
  const absl::Status status = ParseCoordinatorOptions(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ram: '0': expected room for an expert at least"));
}

TEST(CoordinatorOptionsTest, ReportsEveryBadFieldAtOnce) {
  v1::CoordinatorConfig config;
  config.add_nodes("nowhere");
  config.set_spine("fp4");
  config.set_device("abacus");
  config.set_kernel("mmx");
  config.set_ram("much");
  config.set_threads(100000);
  config.set_prefix_cache("some");
  config.set_speculate("often");
  const absl::Status status = ParseCoordinatorOptions(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("nowhere"), HasSubstr("fp4"), HasSubstr("abacus"),
                    HasSubstr("mmx"), HasSubstr("much"), HasSubstr("100000"),
                    HasSubstr("prefix_cache: 'some'"),
                    HasSubstr("speculate: 'often'")));
}

TEST(CoordinatorOptionsTest, AddressesNeedAPort) {
  for (const char* bad :
       {"host", "host:", ":80", "host:0", "host:65536", "host:8x", "host:-1",
        "a host:1", "http://host:1", "host/x:1", "[::1:1", "::1:1", "[]:1"}) {
    v1::CoordinatorConfig config;
    config.add_nodes(bad);
    EXPECT_FALSE(ParseCoordinatorOptions(config).ok()) << bad;
  }
}

}  // namespace
}  // namespace deltafin
