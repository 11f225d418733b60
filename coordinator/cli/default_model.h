// coordinator/cli/default_model.h
//
// Places found from the executable and the environment, so that no flag is
// needed for the plain case.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace deltafin {

// The k3-nano that comes with deltafin: ../share/deltafin/models/k3-nano beside
// the executable, or the source tree's where the program was not installed.
// Errors: NOT_FOUND naming where it was looked for.
absl::StatusOr<std::string> DefaultModelDir();

// $XDG_CACHE_HOME/deltafin, or ~/.cache/deltafin; empty where neither variable
// is set.
std::string DefaultCacheDir();

// The path of the running program.
std::string ExecutablePath();

}  // namespace deltafin
