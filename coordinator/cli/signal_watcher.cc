#include "coordinator/cli/signal_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace deltafin {
namespace {

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void SignalWatcher::BlockSignals() {
  const sigset_t set = WatchedSignals();
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
}

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  const sigset_t set = WatchedSignals();
  signals_ = FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC));
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  CHECK(signals_.valid() && stop_.valid());
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "signals");
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one));
}

void SignalWatcher::Loop() {
  std::array<pollfd, 2> fds{pollfd{signals_.get(), POLLIN, 0},
                            pollfd{stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo signal_read;
    if (read(signals_.get(), &signal_read, sizeof(signal_read)) ==
        sizeof(signal_read)) {
      on_signal_(static_cast<int>(signal_read.ssi_signo));
    }
  }
}

}  // namespace deltafin
