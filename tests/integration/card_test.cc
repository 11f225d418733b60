// Both programs with experts on a card, or without one that was asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/deltafin_program.h"
#include "tests/integration/metrics_page.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const Words kRun{"run", "--prompt",    "It was a dark", "--max-new-tokens",
                 "24",  "--ignore-eos"};

// What the log says, with a card and without.
auto TellsOfCards() {
  return AnyOf(HasSubstr("experts are computed by the processor"),
               HasSubstr("for experts"));
}

TEST(CardTest, OneProcessGivesTheSameIdsWithACardOrInItsPlace) {
  const Json plain = RunDeltafinJson(kRun);
  const Json card = RunDeltafinJson(
      Join(kRun, {"--expert-device", "cuda", "--expert-device-ram", "1M"}));
  EXPECT_EQ(card["output_ids"], plain["output_ids"]);
  EXPECT_EQ(card["output_sha256"], plain["output_sha256"]);
  const ProcessResult told =
      RunDeltafin(Join(kRun, {"--expert-device", "cuda"}));
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.err, TellsOfCards());
}

TEST(CardTest, ANodeGivesTheSameIdsWithACardOrInItsPlace) {
  MiniClusterOptions options;
  options.num_nodes = 2;
  options.flags = {"--metrics", "127.0.0.1:0"};
  options.flags_of_node = {{"--device", "cuda:0"}};
  const auto cluster = MiniCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const Json nodes =
      RunDeltafinJson(Join(kRun, {"--nodes", (*cluster)->addresses()}));
  const Json plain = RunDeltafinJson(kRun);
  EXPECT_EQ(nodes["output_sha256"], plain["output_sha256"]);
  EXPECT_THAT((*cluster)->node(0).err(), TellsOfCards());
  // It either works or is told.
  EXPECT_THAT(ScrapeMetrics((*cluster)->node(0)),
              AnyOf(HasSubstr("deltafin_node_failed_cards_total 1\n"),
                    HasSubstr("deltafin_node_cards 1\n")));
  EXPECT_THAT(ScrapeMetrics((*cluster)->node(1)),
              HasSubstr("deltafin_node_failed_cards_total 0\n"));
}

TEST(CardTest, ADeviceThatIsNoneIsAWrongFlag) {
  const ProcessResult run = RunDeltafin(Join(kRun, {"--expert-device", "tpu"}));
  EXPECT_EQ(run.exit_code, 64);
  EXPECT_THAT(run.err, HasSubstr("expert_device: 'tpu'"));
}

}  // namespace
}  // namespace deltafin::testing
