// coordinator/cli/command.h
//
// One subcommand of deltafin: declares its flags when made, runs when chosen.
#pragma once

#include "absl/status/status.h"
#include "common/net/termination_signal.h"

namespace deltafin {

class Command {
 public:
  virtual ~Command() = default;
  // Does the work, printing results to standard output and all else to standard
  // error. A signal ends the program at once unless it is handled here. The
  // status decides the exit code (exit_code.h); its message is printed by main.
  virtual absl::Status Run(TerminationSignal& signals) = 0;
};

}  // namespace deltafin
