// The signals of a program, sent to itself in a child process: they end it.

#include "common/net/termination_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace deltafin {
namespace {

// Exit code of a child that does `body`, or minus the signal that ended it.
int ExitCodeOfChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_DFL);  // a test under nohup would ignore it
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Raise(int signal) { kill(getpid(), signal); }

TEST(TerminationSignalTest, EndsTheProgramWithItsNumber) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(ExitCodeOfChild([signal] {
                const TerminationSignal signals("test");
                Raise(signal);
                while (true) pause();
              }),
              128 + signal);
  }
}

TEST(TerminationSignalTest, LostReaderIsNoSignal) {
  EXPECT_EQ(ExitCodeOfChild([] {
              const TerminationSignal signals("test");
              Raise(SIGPIPE);
            }),
            0);
}

TEST(TerminationSignalTest, IgnoredHangUpStaysIgnored) {
  EXPECT_EQ(ExitCodeOfChild([] {
              std::signal(SIGHUP, SIG_IGN);
              TerminationSignal signals("test");
              Raise(SIGHUP);
              Raise(SIGTERM);
              while (true) pause();
            }),
            128 + SIGTERM);
}

TEST(TerminationSignalTest, HandlerMayAnswer) {
  EXPECT_EQ(ExitCodeOfChild([] {
              TerminationSignal signals("test");
              int count = 0;
              Mutex mutex;
              CondVar came;
              const SignalHandling handling(signals, [&](int signal) {
                MutexLock lock(mutex);
                count += signal == SIGINT ? 1 : 100;
                came.NotifyAll();
                return true;
              });
              Raise(SIGINT);
              MutexLock lock(mutex);
              while (count == 0) came.Wait(mutex);
              _exit(count == 1 ? 0 : 1);
            }),
            0);
}

TEST(TerminationSignalTest, HandlerMayLetTheProgramEnd) {
  EXPECT_EQ(ExitCodeOfChild([] {
              TerminationSignal signals("test");
              const SignalHandling handling(signals, [](int) { return false; });
              Raise(SIGINT);
              while (true) pause();
            }),
            128 + SIGINT);
}

}  // namespace
}  // namespace deltafin
