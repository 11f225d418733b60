// coordinator/engine/exchange_thread.h
//
// One worker thread that runs a call while its owner computes something else:
// large layers keep moving while the spine works. The owner's thread alone
// calls the methods.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace deltafin {

class ExchangeThread {
 public:
  // A call of the worker; it asks `stopped` and returns early when told so.
  using Call =
      std::function<absl::Status(const std::function<bool()>& stopped)>;

  ExchangeThread();
  // Stops a call under way and joins.
  ~ExchangeThread();

  // REQUIRES: !busy().
  void Begin(Call call);
  // Begun and not collected by Finish.
  bool busy() const { return busy_; }
  // Waits for the call and returns its status. `stopped` is polled by the
  // calling thread and handed on to the call. REQUIRES: busy().
  absl::Status Finish(const std::function<bool()>& stopped);

 private:
  void Run();

  bool busy_ = false;  // the owner's view
  std::atomic<bool> stop_call_ = false;
  Mutex mutex_;
  CondVar changed_;
  Call call_ ABSL_GUARDED_BY(mutex_);  // empty when taken up
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace deltafin
