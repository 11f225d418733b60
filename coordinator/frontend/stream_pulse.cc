#include "coordinator/frontend/stream_pulse.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/thread_affinity.h"

namespace deltafin {

StreamPulse::StreamPulse(absl::Duration interval)
    : interval_(interval), thread_([this] {
        SetThreadName("http-pulse");
        Run();
      }) {}

StreamPulse::~StreamPulse() {
  {
    MutexLock lock(mutex_);
    is_stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void StreamPulse::Add(std::weak_ptr<Pulsed> pulsed) {
  MutexLock lock(mutex_);
  added_.push_back(std::move(pulsed));
  changed_.NotifyAll();
}

void StreamPulse::Run() {
  std::vector<std::weak_ptr<Pulsed>> all;
  while (true) {
    {
      MutexLock lock(mutex_);
      const absl::Time next = absl::Now() + interval_;
      while (!is_stopped_ &&
             ((all.empty() && added_.empty()) || absl::Now() < next)) {
        changed_.WaitUntil(mutex_, all.empty() && added_.empty()
                                       ? absl::InfiniteFuture()
                                       : next);
      }
      if (is_stopped_) return;
      std::move(added_.begin(), added_.end(), std::back_inserter(all));
      added_.clear();
    }
    Pulse(all);
  }
}

void StreamPulse::Pulse(std::vector<std::weak_ptr<Pulsed>>& all) {
  std::erase_if(all, [](const std::weak_ptr<Pulsed>& weak) {
    const std::shared_ptr<Pulsed> pulsed = weak.lock();
    return pulsed == nullptr || !pulsed->OnPulse();
  });
}

}  // namespace deltafin
