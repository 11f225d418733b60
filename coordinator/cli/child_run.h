// coordinator/cli/child_run.h
//
// Runs a program to its end and keeps what it wrote.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/net/termination_signal.h"

namespace deltafin {

struct ChildOutput {
  int exit_code = 0;  // 128 + number when a signal ended it
  std::string out;
  std::string err;
};

// Blocks until the child ends. argv[0] is a path. A signal that ends this
// program meanwhile is passed on to the child. Errors: INTERNAL when it cannot
// be started.
absl::StatusOr<ChildOutput> RunChild(const std::vector<std::string>& argv,
                                     TerminationSignal& signals);

}  // namespace deltafin
