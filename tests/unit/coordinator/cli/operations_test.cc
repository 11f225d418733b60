// What health, placement and explain print, and how health ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/net/exit_code.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/drain_command.h"
#include "coordinator/cli/explain_command.h"
#include "coordinator/cli/health_command.h"
#include "coordinator/cli/placement_command.h"
#include "coordinator/cli/text_table.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> WordsOfLine(const std::string& text,
                                     const std::string& beginning) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with(beginning)) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

v1::ClusterHealth TwoNodes() {
  v1::ClusterHealth health;
  health.set_verdict(v1::ClusterHealth::DEGRADED);
  health.set_reason("b is gone");
  health.set_model("/models/m");
  health.set_epoch(17);
  health.set_copies_wanted(2);
  health.set_copies_least(1);
  health.set_uncovered_slices(3);
  health.set_scarce_slices(1234);
  health.set_coordinator_id("0123456789abcdef");
  v1::NodeHealth* const a = health.add_nodes();
  a->set_name("a:1");
  a->set_node_id("deadbeef0000");
  a->set_state("serving");
  a->set_version("1.2.3");
  a->set_share(0.625);
  a->set_round_trip_p50_us(1500);
  a->set_round_trip_p99_us(20250);
  a->set_layer_p50_us(700);
  a->set_layer_p99_us(900);
  a->mutable_capacity()->set_disk_bytes(uint64_t{1} << 40);
  a->mutable_capacity()->set_disk_free_bytes(uint64_t{3} << 29);
  a->mutable_capacity()->set_memory_bytes(uint64_t{1} << 36);
  a->mutable_capacity()->set_memory_free_bytes(uint64_t{1} << 33);
  a->mutable_capacity()->set_read_bytes_per_second(2.5 * (1 << 30));
  a->mutable_load()->set_owned_slices(4321);
  a->set_meant_slices(5000);
  a->set_missing_slices(700);
  a->mutable_load()->set_resident_experts(55);
  a->mutable_load()->mutable_counters()->set_queue_depth(6);
  a->set_errors(7);
  a->set_last_seen_ms(1800);
  v1::NodeHealth* const b = health.add_nodes();
  b->set_name("b:1");
  b->set_state("gone");
  b->set_remark("line\nbreak");
  return health;
}

TEST(HealthReportTest, TheTableHasEveryFigureOfANode) {
  const std::string table = HealthTable(TwoNodes());
  EXPECT_THAT(table, HasSubstr("degraded: b is gone"));
  EXPECT_THAT(table, HasSubstr("1 of 2: 1234 slices have fewer, 3 none"));
  EXPECT_THAT(table, HasSubstr("17, coordinator 01234567\n"));
  EXPECT_THAT(WordsOfLine(table, "a:1"),
              ElementsAre("a:1", "deadbeef", "serving", "1.2.3", "62.5%",
                          "1.50/20.25", "0.70/0.90", "4321/5000", "55", "1.5",
                          "8.0", "2.5", "6", "7", "1.8", "s"));
  EXPECT_THAT(table, HasSubstr("line?break"));
}

TEST(HealthReportTest, WhatANodeNeverToldIsADash) {
  EXPECT_THAT(WordsOfLine(HealthTable(TwoNodes()), "b:1"),
              ElementsAre("b:1", "gone", "0.0%", "-", "-", "-/-", "-", "-", "-",
                          "-", "-", "0", "0.0", "s", "line?break"));
}

TEST(HealthReportTest, WithoutNodesThereIsNoTable) {
  v1::ClusterHealth health;
  health.set_verdict(v1::ClusterHealth::DOWN);
  EXPECT_EQ(HealthTable(health).find("RTT"), std::string::npos);
  EXPECT_THAT(HealthTable(health), HasSubstr("down"));
}

TEST(HealthReportTest, JsonIsOneLineWithTheNumbersAsTheyCame) {
  const std::string text = HealthJson(TwoNodes());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["verdict"], "degraded");
  EXPECT_EQ(json["copies_least"], 1);
  EXPECT_EQ(json["uncovered_slices"], 3);
  EXPECT_EQ(json["scarce_slices"], 1234);
  EXPECT_EQ(json["nodes"][0]["owned_slices"], 4321);
  EXPECT_EQ(json["nodes"][0]["meant_slices"], 5000);
  EXPECT_EQ(json["nodes"][0]["missing_slices"], 700);
  ASSERT_EQ(json["nodes"].size(), 2u);
  const Json& a = json["nodes"][0];
  EXPECT_EQ(a["node_id"], "deadbeef0000");
  EXPECT_EQ(a["round_trip_p99_us"], 20250);
  EXPECT_EQ(a["share"], 0.625);
  EXPECT_EQ(a["disk_free_bytes"], uint64_t{3} << 29);
  EXPECT_EQ(a["queue_depth"], 6);
  EXPECT_EQ(json["nodes"][1]["remark"], "line\nbreak");
}

v1::PlacementReport TwoShares() {
  v1::PlacementReport report;
  report.set_copies(2);
  report.set_slice_bytes(1 << 20);
  for (const uint64_t missing : {100, 1024}) {
    v1::PlacementReport::Share* const share = report.add_shares();
    share->set_node("n:" + std::to_string(missing));
    share->set_share(0.5);
    share->set_slices_wanted(4000);
    share->set_slices_held(3000);
    share->set_slices_missing(missing);
    share->set_slices_spare(7);
  }
  return report;
}

TEST(PlanTableTest, TellsSlicesBytesAndTimeWithinTheBudget) {
  v1::PlacementReport report = TwoShares();
  EXPECT_EQ(CopySeconds(report), 0);
  const std::string unbounded = PlanTable(report);
  EXPECT_THAT(unbounded, HasSubstr("with 2 copies of everything 1124 slices, "
                                   "1.10 GiB, are to be copied\n"));
  EXPECT_THAT(WordsOfLine(unbounded, "n:1024"),
              ElementsAre("n:1024", "50.0%", "4000", "1024", "1.00", "7"));
  report.set_copy_bytes_per_second(8 << 20);
  report.set_uncovered_slices(5);
  EXPECT_DOUBLE_EQ(CopySeconds(report), 128);
  const std::string bounded = PlanTable(report);
  EXPECT_THAT(bounded, HasSubstr("at least 128 s at 8.00 MiB/s a node"));
  EXPECT_THAT(bounded, HasSubstr("5 slices are on no node"));
  const Json json = Json::parse(PlacementJson(report));
  EXPECT_EQ(json["copy_seconds"], 128);
  EXPECT_EQ(json["shares"][1]["slices_missing"], 1024);
  EXPECT_EQ(json["shares"][1]["slices_spare"], 7);
}

TEST(HealthStatusTest, EndsWithZeroOneOrTwo) {
  v1::ClusterHealth health = TwoNodes();
  EXPECT_EQ(ExitCodeOf(HealthStatus(health)), 1);
  EXPECT_THAT(std::string(HealthStatus(health).message()),
              HasSubstr("b is gone"));
  health.set_verdict(v1::ClusterHealth::DOWN);
  EXPECT_EQ(ExitCodeOf(HealthStatus(health)), 2);
  health.set_verdict(v1::ClusterHealth::HEALTHY);
  EXPECT_TRUE(HealthStatus(health).ok());
}

TEST(WatchIntervalTest, TakesSecondsAndRefusesTheRest) {
  EXPECT_EQ(ParseWatchInterval("2").value(), absl::Seconds(2));
  EXPECT_EQ(ParseWatchInterval("0.5").value(), absl::Milliseconds(500));
  for (const std::string text : {"0", "-1", "nan", "x", "1e9"}) {
    EXPECT_EQ(ExitCodeOf(ParseWatchInterval(text).status()), kExitUsage)
        << text;
  }
}

TEST(AdminClientTest, RefusesAddressesThatAreNoneOrNotOfThisMachine) {
  for (const std::string text :
       {"", "nonsense", "127.0.0.1", "10.0.0.1:8500"}) {
    EXPECT_EQ(ExitCodeOf(AdminClient::Create({text, {}}).status()), kExitUsage)
        << text;
  }
}

TEST(AdminClientTest, SaysWhatToDoWhereNobodyAnswers) {
  auto client = AdminClient::Create({"127.0.0.1:1", {}});
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = client->GetHealth().status();
  EXPECT_EQ(ExitCodeOf(status), kExitUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--coordinator"));
}

v1::PlacementReport Placed() {
  v1::PlacementReport report;
  report.set_epoch(5);
  report.set_policy("proportional");
  report.set_copies(1);
  v1::PlacementReport::Share* const share = report.add_shares();
  share->set_node("a:1");
  share->set_share(0.25);
  share->set_slices_wanted(10);
  share->set_slices_held(7);
  share->set_slices_missing(3);
  v1::PlacedRun* const run = report.add_runs();
  run->set_node("a:1");
  run->set_first_slice(4);
  run->set_num_slices(3);
  run->set_copy(1);
  return report;
}

TEST(PlacementReportTextTest, ShowsSharesAndRuns) {
  const std::string table = PlacementTable(Placed());
  EXPECT_THAT(table, HasSubstr("1 copy of"));
  EXPECT_THAT(WordsOfLine(table, "a:1"),
              ElementsAre("a:1", "25.0%", "10", "7", "3"));
  EXPECT_THAT(WordsOfLine(table, "4-6"), ElementsAre("4-6", "1", "a:1", "no"));
  const Json json = Json::parse(PlacementJson(Placed()));
  EXPECT_EQ(json["shares"][0]["slices_missing"], 3);
  EXPECT_EQ(json["runs"][0]["first_slice"], 4);
  EXPECT_EQ(json["runs"][0]["held"], false);
}

v1::Explanation Slow() {
  v1::Explanation explanation;
  explanation.set_request(9);
  explanation.set_tokens(30);
  explanation.set_seconds(1.5);
  explanation.set_prompt_seconds(0.5);
  v1::Explanation::Part* part = explanation.add_prompt_parts();
  part->set_where("spine");
  part->set_seconds(0.125);
  return explanation;
}

TEST(ExplanationTextTest, ShowsThePromptAloneWhereThereIsNoLaterToken) {
  const std::string table = ExplanationTable(Slow());
  EXPECT_THAT(table, HasSubstr("request 9: 30 tokens in 1.500 s"));
  EXPECT_THAT(WordsOfLine(table, "spine"),
              ElementsAre("spine", "125.00", "25%"));
  EXPECT_EQ(table.find("slowest"), std::string::npos);
}

TEST(ExplanationTextTest, ShowsTheSlowestTokenWithItsLayers) {
  v1::Explanation explanation = Slow();
  explanation.set_slowest_token(12);
  explanation.set_slowest_seconds(0.25);
  v1::Explanation::SlowLayer* const layer = explanation.add_layers();
  layer->set_layer(17);
  layer->set_node("b:2");
  layer->set_seconds(0.1);
  layer->set_queue_seconds(0.001);
  layer->set_read_seconds(0.002);
  layer->set_compute_seconds(0.003);
  layer->set_link_seconds(0.09);
  layer->set_remark("re-planned");
  const std::string table = ExplanationTable(explanation);
  EXPECT_THAT(table, HasSubstr("number 13: 250.00 ms"));
  EXPECT_THAT(WordsOfLine(table, "17"),
              ElementsAre("17", "100.00", "b:2", "1.00", "2.00", "3.00",
                          "90.00", "re-planned"));
  const Json json = Json::parse(ExplanationJson(explanation));
  EXPECT_EQ(json["request"], 9);
  EXPECT_EQ(json["prompt"]["parts"]["spine"], 0.125);
  EXPECT_EQ(json["slowest"]["token"], 12);
  EXPECT_EQ(json["slowest"]["layers"][0]["node"], "b:2");
}

// Words of a coordinator that are meant for the terminal.
const char kWords[] =
    "a\x1b[2J\nb\xc2\x9b"
    "31m";
const char kShown[] = "a?[2J?b?31m";

TEST(ForeignWordsTest, AreOneLineInEveryReport) {
  v1::ClusterHealth health;
  health.set_reason(kWords);
  health.set_model(kWords);
  health.set_coordinator_id("\x1b[2J\r1234567");
  const std::string table = HealthTable(health);
  EXPECT_THAT(table, HasSubstr(std::string("healthy: ") + kShown + "\n"));
  EXPECT_THAT(table, HasSubstr(std::string("model        ") + kShown + "\n"));
  EXPECT_THAT(table, HasSubstr("coordinator ?[2J?123\n"));
  v1::PlacementReport placement;
  placement.set_policy(kWords);
  EXPECT_THAT(PlacementTable(placement),
              HasSubstr(std::string("policy       ") + kShown + ", 0 copies"));
  v1::DrainProgress progress;
  progress.set_step(kWords);
  EXPECT_EQ(DrainLine(progress), std::string(kShown) + "\n");
}

TEST(TextTableTest, ALongCellIsCutAndDoesNotWidenEveryLine) {
  TextTable table({"a", "b"});
  table.Add({std::string(5000, 'x'), "y"});
  for (int row = 0; row < 50; ++row) table.Add({"1", "2"});
  const std::string text = table.ToString();
  EXPECT_THAT(text, HasSubstr(std::string(1000, 'x') + "..."));
  EXPECT_THAT(text, HasSubstr("\n1" + std::string(101, ' ') + "2\n"));
  EXPECT_LT(text.size(), 1100u + 51 * 105);
}

}  // namespace
}  // namespace deltafin
