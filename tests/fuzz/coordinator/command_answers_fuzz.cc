// Input: a byte that says which answer a command got, then its bytes:
// ClusterHealth, PlacementReport, Explanation, DrainProgress, StorageReport, or
// of a node the HandshakeReply and NodeCounters twice (tests/fuzz/pieces.h).
// What a command prints of it is lines of text without control characters, or
// JSON on one line.

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/drain_command.h"
#include "coordinator/cli/experts_command.h"
#include "coordinator/cli/explain_command.h"
#include "coordinator/cli/health_command.h"
#include "coordinator/cli/placement_command.h"
#include "coordinator/cli/run_report.h"
#include "coordinator/cli/stats_table.h"
#include "coordinator/cluster/handshake.h"
#include "tests/fuzz/pieces.h"
#include "tests/fuzz/silence.h"

namespace v1 = deltafin::v1;
using Json = nlohmann::json;

namespace {

// What comes in is shown, not multiplied: a byte makes a line of a table at
// most.
constexpr size_t kMaxTextOfByte = 2000;

void CheckText(std::string_view text, size_t input_bytes) {
  CHECK(text.ends_with('\n'));
  CHECK(text.size() <= kMaxTextOfByte * (input_bytes + 10));
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    CHECK(c == '\n' || static_cast<uint8_t>(c) >= ' ');
    CHECK(c != 0x7f);
    const bool is_high = c == '\xc2' && i + 1 < text.size() &&
                         static_cast<uint8_t>(text[i + 1]) >= 0x80 &&
                         static_cast<uint8_t>(text[i + 1]) <= 0x9f;
    CHECK(!is_high);
  }
}

Json CheckJson(std::string_view text) {
  CHECK(text.ends_with('\n') && text.find('\n') == text.size() - 1);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  CHECK(json.is_object());
  return json;
}

template <typename Message>
bool Parse(std::span<const uint8_t> bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void TryHealth(std::span<const uint8_t> bytes) {
  v1::ClusterHealth health;
  if (!Parse(bytes, &health)) return;
  CheckText(deltafin::HealthTable(health), bytes.size());
  const Json json = CheckJson(deltafin::HealthJson(health));
  CHECK(json["nodes"].size() == static_cast<size_t>(health.nodes_size()));
  CHECK(json["epoch"] == health.epoch());
  const absl::Status status = deltafin::HealthStatus(health);
  const int code = deltafin::ExitCodeOf(status);
  CHECK(status.ok() == (health.verdict() == v1::ClusterHealth::HEALTHY));
  CHECK(code == (status.ok() ? deltafin::kExitOk
                 : health.verdict() == v1::ClusterHealth::DEGRADED
                     ? deltafin::kExitDegraded
                     : deltafin::kExitDown));
}

void TryPlacement(std::span<const uint8_t> bytes) {
  v1::PlacementReport report;
  if (!Parse(bytes, &report)) return;
  CheckText(deltafin::PlacementTable(report), bytes.size());
  CheckText(deltafin::PlanTable(report), bytes.size());
  const double seconds = deltafin::CopySeconds(report);
  CHECK(std::isfinite(seconds) && seconds >= 0);
  const Json json = CheckJson(deltafin::PlacementJson(report));
  CHECK(json["runs"].size() == static_cast<size_t>(report.runs_size()));
  CHECK(json["shares"].size() == static_cast<size_t>(report.shares_size()));
}

void TryExplanation(std::span<const uint8_t> bytes) {
  v1::Explanation explanation;
  if (!Parse(bytes, &explanation)) return;
  CheckText(deltafin::ExplanationTable(explanation), bytes.size());
  const Json json = CheckJson(deltafin::ExplanationJson(explanation));
  CHECK(json["slowest"]["layers"].size() ==
        static_cast<size_t>(explanation.layers_size()));
}

void TryDrain(std::span<const uint8_t> bytes) {
  v1::DrainProgress progress;
  if (!Parse(bytes, &progress)) return;
  const std::string line = deltafin::DrainLine(progress);
  CheckText(line, bytes.size());
  CHECK(line.find('\n') == line.size() - 1);
}

void TryStorage(std::span<const uint8_t> bytes) {
  v1::StorageReport report;
  if (!Parse(bytes, &report)) return;
  CheckText(deltafin::StorageTable(report), bytes.size());
  const Json json = CheckJson(deltafin::StorageJson(report));
  CHECK(json["held_bytes"] == report.held_bytes());
  CHECK(json["quota_bytes"].is_null() == report.unlimited());
}

// What `run --stats` tells of a node of --nodes.
void TryCounters(std::span<const uint8_t> bytes) {
  const v1::HandshakeRequest ours =
      deltafin::MakeHandshake({std::string(64, 'd'), "fuzz"});
  deltafin::NodeReport before;
  before.address = "127.0.0.1:7000";
  if (!Parse(deltafin::TakePiece(bytes), &before.identity) ||
      !Parse(deltafin::TakePiece(bytes), &before.counters)) {
    return;
  }
  before.identity.set_wire_version(ours.wire_version());
  before.identity.set_numerics_version(ours.numerics_version());
  before.identity.set_manifest_digest(ours.manifest_digest());
  if (!deltafin::CheckNodeIdentity(ours, before.identity).ok()) return;
  deltafin::NodeReport after = before;
  if (!Parse(deltafin::TakePiece(bytes), &after.counters)) return;
  deltafin::RunStatistics statistics;
  statistics.nodes = deltafin::CountersSince({before}, {after});
  CHECK(statistics.nodes.size() == 1);
  const v1::NodeCounters& since = statistics.nodes[0].counters;
  CHECK(since.slices_computed() <= after.counters.slices_computed());
  CHECK(since.bytes_read() <= after.counters.bytes_read());
  CHECK(since.evictions() <= after.counters.evictions());
  CheckText(deltafin::StatsTable(statistics), bytes.size());
  const Json json = CheckJson(deltafin::StatisticsJson(statistics) + '\n');
  CHECK(json["nodes"][0]["slices_computed"] == since.slices_computed());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  constexpr void (*kTries[])(std::span<const uint8_t>) = {
      TryHealth, TryPlacement, TryExplanation,
      TryDrain,  TryStorage,   TryCounters};
  kTries[bytes[0] % std::size(kTries)]({bytes + 1, size - 1});
  return 0;
}
