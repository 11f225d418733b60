#include "tests/integration/lan_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_join.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr absl::Duration kRunTimeout = absl::Minutes(4);
constexpr int kLongPromptTokens = 1024;
constexpr int kLongPromptChunk = 256;
constexpr int kRowsPerMessage = 128;

Words RunFlags(const std::string& ids, int num_tokens) {
  return {"run",
          "--prompt-ids",
          ids,
          "--max-new-tokens",
          std::to_string(num_tokens),
          "--ignore-eos",
          "--threads",
          "1",
          "--prefill-chunk",
          std::to_string(kLongPromptChunk)};
}

void ExpectDisturbed(LanCluster& cluster, const LanCase& lan_case,
                     const Json& report, const std::string& err) {
  for (const int node : lan_case.loses_parts) {
    EXPECT_GT(NodeEntry(report, cluster.address(node))["parts_lost"], 0)
        << report["stats"]["nodes"];
  }
  for (const int node : lan_case.is_reported_lost) {
    EXPECT_THAT(err, HasSubstr("is suspect: node " + cluster.address(node)));
  }
  if (lan_case.expect) lan_case.expect(cluster, report);
}

}  // namespace

const Words kEveryNodeWorks{"--test-placement", "random:5"};

LanPrompt ShortLanPrompt(int num_tokens) {
  return {RunFlags("1063,315", num_tokens), kLanMoeLayers};
}

LanPrompt LongLanPrompt(int num_tokens) {
  std::vector<int> ids(kLongPromptTokens);
  for (int i = 0; i < kLongPromptTokens; ++i) {
    ids[i] = (97 * i + i / 7) % 3840;
  }
  return {RunFlags(absl::StrJoin(ids, ","), num_tokens),
          kLanMoeLayers * kLongPromptTokens / kRowsPerMessage};
}

const Json& UndisturbedReport(const LanPrompt& prompt) {
  static auto* const reports = new std::map<Words, Json>();
  const auto found = reports->find(prompt.flags);
  if (found != reports->end()) return found->second;
  return reports->emplace(prompt.flags, RunDeltafinJson(prompt.flags))
      .first->second;
}

std::ostream& operator<<(std::ostream& out, const LanCase& lan_case) {
  return out << lan_case.name << " on " << LanProfileName(lan_case.profile);
}

const Json& NodeEntry(const Json& report, const std::string& address) {
  static const Json* const none = new Json(Json::object());
  for (const Json& node : report["stats"]["nodes"]) {
    if (node["address"] == address) return node;
  }
  ADD_FAILURE() << "no node " << address << " in " << report["stats"];
  return *none;
}

void RunLanCase(const LanCase& lan_case) {
  const Json& undisturbed = UndisturbedReport(lan_case.prompt);
  auto cluster =
      LanCluster::Start(lan_case.profile, kLanNodes, lan_case.node_flags);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  if (lan_case.prepare) {
    const absl::Status prepared = lan_case.prepare(**cluster);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }
  auto run = (*cluster)->StartDeltafin(Join(
      Join(lan_case.prompt.flags, lan_case.run_flags), {"--json", "--stats"}));
  ASSERT_TRUE(run.ok()) << run.status();
  if (lan_case.disturb) {
    const absl::Status disturbed = lan_case.disturb(**cluster, **run);
    ASSERT_TRUE(disturbed.ok()) << disturbed << "\n" << (*run)->err();
    ASSERT_EQ((*run)->out(), "") << "it ended before it was disturbed";
  }
  const absl::StatusOr<int> code = (*run)->Wait(kRunTimeout);
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_EQ(*code, 0) << (*run)->err();
  const Json report = Json::parse((*run)->out(), nullptr, false);
  ASSERT_TRUE(report.is_object()) << (*run)->out();
  EXPECT_EQ(report["output_ids"], undisturbed["output_ids"]);
  EXPECT_EQ(report["output_sha256"], undisturbed["output_sha256"]);
  ExpectDisturbed(**cluster, lan_case, report, (*run)->err());
}

}  // namespace deltafin::testing
