// expert_node/periodic_thread.h
//
// A thread that does one thing again and again. It lives as long as the object.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

class PeriodicThread {
 public:
  // Calls `work` for the first time after `interval`.
  PeriodicThread(std::string name, absl::Duration interval,
                 std::function<void()> work);
  // Waits for a call that runs.
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

 private:
  void Loop();

  const absl::Duration interval_;
  const std::function<void()> work_;
  Mutex mutex_;
  CondVar stopped_changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace deltafin
