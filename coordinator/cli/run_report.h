// coordinator/cli/run_report.h
//
// What `deltafin run --json` prints: one JSON object. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/generation.h"
#include "coordinator/run_statistics.h"

namespace deltafin {

struct RunReport {
  std::string model;
  std::string manifest_digest;
  std::vector<int32_t> prompt_ids;
  GenerationOutput output;
  double load_seconds = 0;
  RunSettings settings;
  std::string output_sha256;
  std::optional<RunStatistics> statistics;
};

// "stop", "length", "stop_string" or "none".
std::string FinishReasonName(FinishReason reason);

std::string RunReportJson(const RunReport& report);

// The same statistics as StatsTable, one JSON object.
std::string StatisticsJson(const RunStatistics& statistics);

// SHA-256 over the output ids as u32 little-endian and, when a dump is named,
// its rows as f32 little-endian.
absl::StatusOr<std::string> OutputSha256(const std::vector<int32_t>& output_ids,
                                         const std::string& dump_path);

}  // namespace deltafin
