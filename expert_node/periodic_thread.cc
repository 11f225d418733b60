#include "expert_node/periodic_thread.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/thread_affinity.h"

namespace deltafin {

PeriodicThread::PeriodicThread(std::string name, absl::Duration interval,
                               std::function<void()> work)
    : interval_(interval), work_(std::move(work)) {
  thread_ = std::thread([this, name = std::move(name)] {
    SetThreadName(name);
    Loop();
  });
}

PeriodicThread::~PeriodicThread() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    stopped_changed_.NotifyAll();
  }
  thread_.join();
}

void PeriodicThread::Loop() {
  while (true) {
    {
      const absl::Time next = absl::Now() + interval_;
      MutexLock lock(mutex_);
      while (!stopped_ && absl::Now() < next) {
        stopped_changed_.WaitUntil(mutex_, next);
      }
      if (stopped_) return;
    }
    work_();
  }
}

}  // namespace deltafin
