// coordinator/cli/bench_command.h
//
// `deltafin bench --ab "flags A" "flags B"`: the same program with two sets of
// flags, run in turns (A B B A), so that a machine that drifts favours neither.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/spread.h"

namespace CLI {
class App;
}

namespace deltafin {

// One finished run of `deltafin run --json`.
struct BenchRun {
  double prefill_seconds = 0;  // whole prompt
  double decode_seconds_per_token = 0;
  std::string output_sha256;
};

// All runs of one set of flags.
struct BenchSide {
  std::string flags;
  std::vector<BenchRun> runs;

  Spread Prefill() const;
  Spread Decode() const;
};

// Reads the JSON object that `run --json` printed. Errors: INTERNAL.
absl::StatusOr<BenchRun> ParseBenchRun(const std::string& json);

// Errors: ABORTED naming both digests when two runs,
// of whichever side, differ in output.
absl::Status CheckSameOutput(const BenchSide& a, const BenchSide& b);

class BenchCommand final : public Command {
 public:
  explicit BenchCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  // Fills both sides.
  absl::Status RunInTurns(BenchSide& a, BenchSide& b,
                          TerminationSignal& signals) const;

  std::pair<std::string, std::string> ab_;  // two lines of flags
  std::string both_;                        // flags of both sides
  int rounds_ = 3;
  bool json_ = false;
};

}  // namespace deltafin
