#include "common/net/termination_signal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/net/exit_code.h"

namespace deltafin {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // A blocked signal is delivered even where it is ignored.
  if (!IsIgnored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

[[noreturn]] void EndAtOnce(const std::string& program, int signal) {
  const absl::Status status = InterruptedError(signal);
  const std::string message(status.message());
  // A terminal has written ^C and stays on its line.
  const bool in_line = signal == SIGINT && isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%s%s: %s\n", in_line ? "\n" : "", program.c_str(),
               message.c_str());
  std::_Exit(ExitCodeOf(status));
}

}  // namespace

TerminationSignal::TerminationSignal(std::string program)
    : program_(std::move(program)) {
  const sigset_t set = WatchedSignals();
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC));
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  CHECK(signals_.valid() && stop_.valid());
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "signals");
}

TerminationSignal::~TerminationSignal() {
  const uint64_t one = 1;
  CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one));
}

int TerminationSignal::last() const {
  MutexLock lock(mutex_);
  return last_;
}

void TerminationSignal::SetHandler(Handler handler) {
  MutexLock lock(mutex_);
  handler_ = std::move(handler);
}

void TerminationSignal::Loop() {
  std::array<pollfd, 2> fds{pollfd{signals_.get(), POLLIN, 0},
                            pollfd{stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo signal_read;
    if (read(signals_.get(), &signal_read, sizeof(signal_read)) ==
        sizeof(signal_read)) {
      Take(static_cast<int>(signal_read.ssi_signo));
    }
  }
}

void TerminationSignal::Take(int signal) {
  MutexLock lock(mutex_);
  last_ = signal;
  if (handler_ == nullptr || !handler_(signal)) EndAtOnce(program_, signal);
}

SignalHandling::SignalHandling(TerminationSignal& signals,
                               TerminationSignal::Handler handler)
    : signals_(signals) {
  signals_.SetHandler(std::move(handler));
}

SignalHandling::~SignalHandling() { signals_.SetHandler(nullptr); }

AwaitedSignal::AwaitedSignal(TerminationSignal& signals)
    : handling_(signals, [this](int signal) {
        MutexLock lock(mutex_);
        if (first_ != 0) return false;
        first_ = signal;
        came_.NotifyAll();
        return true;
      }) {}

int AwaitedSignal::Wait() {
  MutexLock lock(mutex_);
  while (first_ == 0) came_.Wait(mutex_);
  return first_;
}

}  // namespace deltafin
