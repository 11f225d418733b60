// coordinator/cli/exit_code.h
//
// How a command ends: the exit codes of docs/configuration.md and the status
// that leads to each.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,         // anything below does not say
  kExitUsage = 64,         // flags that are unknown, malformed or contradict
  kExitBadInput = 65,      // model, prompt or file that cannot be used
  kExitUnavailable = 69,   // node, port, memory or disk that is not there
  kExitInterrupted = 130,  // ended by Ctrl-C
};

// INVALID_ARGUMENT that ends the program with kExitUsage.
absl::Status UsageError(std::string_view message);

// CANCELLED that ends the program with kExitInterrupted.
absl::Status InterruptedError();

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace deltafin
