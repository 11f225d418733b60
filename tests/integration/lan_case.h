// tests/integration/lan_case.h
//
// Disturbances of a cluster, each with a generation that must not show it: the
// ids and their hash are those of an undisturbed run in one process.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/integration/lan_cluster.h"

namespace deltafin::testing {

inline constexpr int kLanNodes = 4;
inline constexpr int kLanMoeLayers = 12;  // of k3-nano

// A placement that gives every node work in nearly every layer; the default
// one leaves out nodes whose round trip costs more than their help is worth,
// which on a model this small may be any.
extern const Words kEveryNodeWorks;

struct LanPrompt {
  Words flags;  // of `deltafin run`
  // Layer requests of one node before the first token is there.
  int prefill_requests = 0;
};

// One step of a few tokens.
LanPrompt ShortLanPrompt(int num_tokens);
// 1,024 tokens in steps of 256.
LanPrompt LongLanPrompt(int num_tokens);

// The report of the same generation in one process, cached.
const nlohmann::json& UndisturbedReport(const LanPrompt& prompt);

struct LanCase {
  std::string name;
  LanProfile profile = LanProfile::kLan;
  LanPrompt prompt;
  Words node_flags;
  Words run_flags;
  // Called before the coordinator starts.
  std::function<absl::Status(LanCluster& cluster)> prepare;
  // Called while `run` goes on; it has not ended yet when this returns, unless
  // the case says otherwise.
  std::function<absl::Status(LanCluster& cluster, Process& run)> disturb;
  // Nodes that must have lost work to others.
  std::vector<int> loses_parts;
  // Nodes that standard error must call suspect.
  std::vector<int> is_reported_lost;
  // Further expectations on the box, afterwards.
  std::function<void(LanCluster& cluster, const nlohmann::json& report)> expect;
};

std::ostream& operator<<(std::ostream& out, const LanCase& lan_case);

// Runs the case and checks all of it.
void RunLanCase(const LanCase& lan_case);

// Cases that take seconds, for one profile; those that need links are left out
// where there are none.
std::vector<LanCase> QuickLanCases(LanProfile profile);

// The entry of a node in a report's statistics.
const nlohmann::json& NodeEntry(const nlohmann::json& report,
                                const std::string& address);

}  // namespace deltafin::testing
