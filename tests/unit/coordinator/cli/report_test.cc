#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/cli/bench_command.h"
#include "coordinator/cli/run_report.h"
#include "coordinator/cli/stats_table.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

RunStatistics Statistics() {
  RunStatistics statistics;
  statistics.settings = {"cpu-bf16", "avx2", 2, 512, 8192, "even"};
  statistics.scheduler.steps = 4;
  statistics.scheduler.prefill_tokens = 7;
  statistics.scheduler.decode_tokens = 3;
  statistics.scheduler.sequences_in_steps = 6;
  statistics.scheduler.forward.network = 0.02;
  NodeReport node;
  node.address = "h:1";
  node.counters.set_slices_computed(480);
  node.counters.set_evictions(9);
  statistics.nodes.push_back(node);
  return statistics;
}

RunReport Report() {
  RunReport report;
  report.prompt_ids = {1, 2};
  report.output.ids = {3, 4};
  report.output.text = "a \xff";
  report.output.result.finish_reason = FinishReason::kLength;
  report.output.result.timings.decode = absl::Milliseconds(40);
  report.output_sha256 = "ab";
  return report;
}

TEST(ReportTest, JsonHoldsIdsTextAndReason) {
  const Json json = Json::parse(RunReportJson(Report()));
  EXPECT_EQ(json["prompt_ids"], Json({1, 2}));
  EXPECT_EQ(json["output_ids"], Json({3, 4}));
  EXPECT_EQ(json["text"], "a \xEF\xBF\xBD");
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_FALSE(json.contains("stats"));
  EXPECT_FALSE(json.contains("reasoning"));
}

TEST(ReportTest, StatisticsAreTheSameInJsonAndTable) {
  const Json json = Json::parse(StatisticsJson(Statistics()));
  EXPECT_EQ(json["steps"], 4);
  EXPECT_EQ(json["nodes"][0]["slices_computed"], 480);
  EXPECT_EQ(json["nodes"][0]["evictions"], 9);
  EXPECT_DOUBLE_EQ(json["seconds_per_token"]["network"], 0.002);
  const std::string table = StatsTable(Statistics());
  EXPECT_THAT(table, HasSubstr("2.000 ms"));
  EXPECT_THAT(table, HasSubstr("480"));
  EXPECT_THAT(table, HasSubstr("sequences per step 1.50"));
}

TEST(ReportTest, WhatWasReadOfTheSpineIsInJsonAndTable) {
  RunStatistics statistics = Statistics();
  EXPECT_THAT(StatsTable(statistics), Not(HasSubstr("spine layers read")));
  statistics.settings.streamed_layers = 7;
  statistics.settings.streamed_bytes = 3 << 20;
  statistics.scheduler.forward.spine.stream_bytes = 20 << 20;
  statistics.scheduler.forward.spine.stream = 4;
  const Json json = Json::parse(StatisticsJson(statistics));
  EXPECT_EQ(json["settings"]["streamed_layers"], 7);
  EXPECT_EQ(json["settings"]["streamed_bytes"], 3 << 20);
  EXPECT_EQ(json["spine_bytes_read"], 20 << 20);
  EXPECT_EQ(json["spine_bytes_per_token"], 2 << 20);
  EXPECT_DOUBLE_EQ(json["seconds"]["spine_stream"], 4);
  EXPECT_THAT(
      StatsTable(statistics),
      HasSubstr("spine layers read: 20.0 MiB in 4.00 s (5.00 MiB a "
                "second), 2.00 MiB a token; 7 layers, 3.00 MiB a step"));
}

TEST(ReportTest, HashOfIdsIsOverLittleEndianWords) {
  // SHA-256 of 01 00 00 00.
  EXPECT_EQ(*OutputSha256({1}, ""),
            "67abdd721024f0ff4e0b3f4c2fc13bc5bad42d0b7851d456d88d203d15aaa450");
}

TEST(ReportTest, CountersAreWhatCameSince) {
  std::vector<NodeReport> before(1), after(1);
  before[0].counters.set_slices_computed(10);
  after[0].counters.set_slices_computed(25);
  after[0].counters.set_resident_bytes(7);
  const std::vector<NodeReport> since = CountersSince(before, after);
  EXPECT_EQ(since[0].counters.slices_computed(), 15u);
  EXPECT_EQ(since[0].counters.resident_bytes(), 7u);
}

TEST(ReportTest, CountersOfANodeThatStartedAgainCountWhole) {
  std::vector<NodeReport> before(1), after(1);
  before[0].counters.set_slices_computed(10);
  after[0].counters.set_slices_computed(4);
  EXPECT_EQ(CountersSince(before, after)[0].counters.slices_computed(), 4u);
}

TEST(ReportTest, TellsOfNodesThatLostWorkOrDoNotAnswer) {
  RunStatistics statistics;
  NodeReport& node = statistics.nodes.emplace_back();
  node.address = "host-a:7400";
  node.reachable = false;
  node.work.parts_lost = 3;
  node.streams_opened = 2;
  const std::string json = StatisticsJson(statistics);
  EXPECT_THAT(json, HasSubstr("\"parts_lost\":3"));
  EXPECT_THAT(json, HasSubstr("\"streams_opened\":2"));
  EXPECT_THAT(json, HasSubstr("\"reachable\":false"));
  EXPECT_THAT(StatsTable(statistics),
              HasSubstr("lost 3 parts to others and does not answer"));
}

TEST(ReportTest, TellsOfWorkThatOthersWereAskedForToo) {
  RunStatistics statistics;
  NodeReport& node = statistics.nodes.emplace_back();
  node.address = "host-a:7400";
  EXPECT_EQ(StatsTable(statistics).find("was late"), std::string::npos);
  node.work.parts_hedged = 4;
  node.work.slices_hedged = 90;
  node.work.hedges_won = 2;
  EXPECT_THAT(StatsTable(statistics), HasSubstr("was late with 4 parts"));
  const std::string json = StatisticsJson(statistics);
  EXPECT_THAT(json, HasSubstr("\"parts_hedged\":4"));
  EXPECT_THAT(json, HasSubstr("\"slices_hedged\":90"));
  EXPECT_THAT(json, HasSubstr("\"hedges_won\":2"));
}

TEST(BenchTest, ReadsTheReportOfARun) {
  const auto run = ParseBenchRun(RunReportJson(Report()));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_DOUBLE_EQ(run->decode_seconds_per_token, 0.04);  // one decoded token
  EXPECT_EQ(run->output_sha256, "ab");
  EXPECT_FALSE(ParseBenchRun("{}").ok());
  EXPECT_FALSE(ParseBenchRun("no json").ok());
}

TEST(BenchTest, OutputsMustAgree) {
  BenchSide a{"A", {{1, 1, "x"}, {1, 1, "x"}}};
  BenchSide b{"B", {{1, 1, "x"}}};
  EXPECT_TRUE(CheckSameOutput(a, b).ok());
  b.runs.push_back({1, 1, "y"});
  EXPECT_THAT(std::string(CheckSameOutput(a, b).message()), HasSubstr("y"));
}

TEST(ReportTest, CountersOfANodeThatWentBackDoNotWrapAround) {
  NodeReport before;
  before.address = "h:1";
  before.counters.set_bytes_read(500);
  NodeReport after = before;
  after.counters.set_bytes_read(400);
  EXPECT_EQ(CountersSince({before}, {after})[0].counters.bytes_read(), 400u);
}

TEST(ReportTest, WordsOfANodeAreNotObeyedByTheTerminal) {
  RunStatistics statistics = Statistics();
  statistics.nodes[0].identity.set_kernel("\x1b[2J\n");
  EXPECT_THAT(StatsTable(statistics), HasSubstr(" ?[2J?"));
}

}  // namespace
}  // namespace deltafin
