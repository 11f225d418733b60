#include "expert_node/termination_signal.h"

namespace deltafin {

TerminationSignal::TerminationSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

int TerminationSignal::Wait() {
  int signal = 0;
  while (sigwait(&signals_, &signal) != 0) {
  }
  return signal;
}

}  // namespace deltafin
