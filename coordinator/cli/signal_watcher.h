// coordinator/cli/signal_watcher.h
//
// SIGINT and SIGTERM as calls on a thread of their own, where locks may be
// taken and objects used.
#pragma once

#include <functional>
#include <thread>

#include "common/base/file_io.h"

namespace deltafin {

class SignalWatcher {
 public:
  // Blocks both signals for this thread and those it starts from now on. Call
  // before any other thread exists.
  static void BlockSignals();

  // Calls `on_signal(number)` for each signal until destroyed.
  // REQUIRES: BlockSignals was called; one watcher at a time.
  explicit SignalWatcher(std::function<void(int)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Loop();

  std::function<void(int)> on_signal_;
  FileDescriptor signals_;
  FileDescriptor stop_;
  std::jthread thread_;
};

}  // namespace deltafin
