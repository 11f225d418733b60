#include "coordinator/cli/experts_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace deltafin {
namespace {

using ::testing::HasSubstr;

TEST(ParseExpertNameTest, TakesLayerAndExpert) {
  EXPECT_EQ(*ParseExpertName("17:803"), (ExpertKey{17, 803}));
  EXPECT_EQ(*ParseExpertName("0:0"), (ExpertKey{0, 0}));
}

TEST(ParseExpertNameTest, RefusesTheRest) {
  for (const char* text : {"", ":", "17", "17:", ":803", "17:x", "-1:2", "1:-2",
                           "1:2:3", " 1:2", "1:2 ", "99999999999:1"}) {
    const auto key = ParseExpertName(text);
    EXPECT_TRUE(absl::IsInvalidArgument(key.status())) << text;
    EXPECT_NE(key.status().message().find(text), absl::string_view::npos);
  }
}

// At time 5, expert 1:2 was used as often as twice now, 3:4 as half a time.
LedgerContents SomeLedger() {
  LedgerContents ledger;
  ledger.manifest_digest = "abc";
  ledger.quota_bytes = 2048;
  ledger.heat = {5, {{{3, 4}, 4, 0b1}, {{1, 2}, 6, 0b11}, {{7, 7}, 0, 0}}};
  ledger.held[{1, 2}] = {0b11, ""};
  return ledger;
}

TEST(LedgerReportTest, ListsTheHottestFirst) {
  const auto json = nlohmann::json::parse(LedgerJson(SomeLedger(), 2));
  EXPECT_EQ(json["held_experts"], 1);
  EXPECT_EQ(json["used_experts"], 3);
  EXPECT_EQ(json["quota_bytes"], 2048);
  ASSERT_EQ(json["hottest"].size(), 2u);
  EXPECT_EQ(json["hottest"][0]["layer"], 1);
  EXPECT_EQ(json["hottest"][0]["expert"], 2);
  EXPECT_EQ(json["hottest"][0]["uses"], 2);
  EXPECT_EQ(json["hottest"][0]["held"], true);
  EXPECT_EQ(json["hottest"][1]["uses"], 0.5);
  EXPECT_EQ(json["hottest"][1]["held"], false);
}

TEST(LedgerReportTest, SaysThatThereIsNoQuota) {
  LedgerContents ledger = SomeLedger();
  EXPECT_THAT(LedgerTable(ledger, 1), HasSubstr("quota    2.00 KiB"));
  ledger.quota_bytes.reset();
  EXPECT_THAT(LedgerTable(ledger, 1), HasSubstr("quota    none"));
  EXPECT_TRUE(
      nlohmann::json::parse(LedgerJson(ledger, 1))["quota_bytes"].is_null());
}

TEST(StorageReportTest, TellsWhatIsThereAndWhatWentAway) {
  v1::StorageReport report;
  report.set_folder("/models/x/experts");
  report.set_all_experts(768);
  report.set_held_experts(10);
  report.set_complete_experts(7);
  report.set_held_bytes(2048);
  report.set_unlimited(true);
  const std::string table = StorageTable(report);
  EXPECT_THAT(table, HasSubstr("7 of 768 complete, 3 in part, 2.00 KiB\n"));
  EXPECT_THAT(table, HasSubstr("quota    none"));
  report.set_removed_experts(2);
  EXPECT_THAT(StorageTable(report), HasSubstr("2.00 KiB; 2 removed\n"));
  EXPECT_TRUE(
      nlohmann::json::parse(StorageJson(report))["quota_bytes"].is_null());
}

}  // namespace
}  // namespace deltafin
