// common/net/termination_signal.h
//
// SIGINT, SIGTERM and SIGHUP on a thread of their own, where locks may be taken
// and objects used. Make it the first thing in main: until then a signal ends
// the program without a word, and threads that exist already would take it.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "common/base/file_io.h"
#include "common/base/mutex.h"

namespace deltafin {

// Thread-safe.
class TerminationSignal {
 public:
  // Answers a signal on the watching thread. False: the program shall end at
  // once. Must neither block for long nor set a handler.
  using Handler = std::function<bool(int signal)>;

  // Blocks the signals for this thread and those it starts, and watches for
  // them. A signal without a handler ends the program at once with the message
  // of InterruptedError after "PROGRAM: ", and exit code 128 + signal. SIGHUP
  // stays ignored where it is (nohup). SIGPIPE is ignored from now on: a reader
  // that went away is an error of the write.
  explicit TerminationSignal(std::string program);
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  // The last signal that came; 0: none.
  int last() const;

 private:
  friend class SignalHandling;
  void SetHandler(Handler handler);
  void Loop();
  void Take(int signal);

  const std::string program_;
  FileDescriptor signals_;
  FileDescriptor stop_;
  mutable Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  int last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

// Lets `handler` answer signals while this lives; one at a time. Its end waits
// for a handler that runs.
class SignalHandling {
 public:
  SignalHandling(TerminationSignal& signals,
                 TerminationSignal::Handler handler);
  ~SignalHandling();
  SignalHandling(const SignalHandling&) = delete;
  SignalHandling& operator=(const SignalHandling&) = delete;

 private:
  TerminationSignal& signals_;
};

// Takes the first signal that comes while this lives as the wish to end well;
// those after it end the program at once. Make it before the program says that
// it is ready: who reads that may signal at once.
class AwaitedSignal {
 public:
  explicit AwaitedSignal(TerminationSignal& signals);

  // Waits for the signal and returns its number.
  int Wait();

 private:
  Mutex mutex_;
  CondVar came_;
  int first_ ABSL_GUARDED_BY(mutex_) = 0;
  SignalHandling handling_;  // last: its end waits for the handler
};

}  // namespace deltafin
