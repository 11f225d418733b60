// expert_node/termination_signal.h
//
// SIGTERM and SIGINT as a call that returns. Create it at the start of main,
// before any thread: threads inherit the blocked signals.
#pragma once

#include <csignal>

namespace deltafin {

class TerminationSignal {
 public:
  // Blocks both signals for this thread and those it starts.
  TerminationSignal();

  // Waits for either and returns its number. By one thread.
  int Wait();

 private:
  sigset_t signals_;
};

}  // namespace deltafin
