// coordinator/cli/program.h
//
// The command line of deltafin: its subcommands, --version, --log-level, and
// how a status becomes a message and an exit code.
#pragma once

#include "common/net/termination_signal.h"

namespace deltafin {

// Parses and runs; returns the exit code. Exceptions of the flag library end
// here.
int RunProgram(int argc, char** argv, TerminationSignal& signals);

}  // namespace deltafin
