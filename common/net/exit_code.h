// common/net/exit_code.h
//
// How a program ends: the exit codes of docs/configuration.md and the status
// that leads to each.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,        // anything below does not say
  kExitUsage = 64,        // flags that are unknown, malformed or contradict
  kExitBadInput = 65,     // model, prompt or file that cannot be used
  kExitUnavailable = 69,  // node, port, memory or disk that is not there
};

// What a shell says of a program that a signal ended.
inline constexpr int kExitOfSignal = 128;

// INVALID_ARGUMENT that ends the program with kExitUsage.
absl::Status UsageError(std::string_view message);

// CANCELLED that ends the program with 128 + signal: 130 for Ctrl-C.
absl::Status InterruptedError(int signal);

// `status` so that it ends the program with `exit_code`, whatever its own code
// says. REQUIRES: not OK.
absl::Status WithExitCode(absl::Status status, int exit_code);

int ExitCodeOf(const absl::Status& status);

}  // namespace deltafin
