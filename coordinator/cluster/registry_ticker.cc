#include "coordinator/cluster/registry_ticker.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"

namespace deltafin {

RegistryTicker::RegistryTicker(NodeRegistry& registry, absl::Duration interval)
    : registry_(registry), interval_(interval), thread_([this] { Loop(); }) {}

RegistryTicker::~RegistryTicker() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void RegistryTicker::SetListener(std::function<void(bool)> listener) {
  MutexLock lock(mutex_);
  listener_ = std::move(listener);
  is_told_ = false;
  changed_.NotifyAll();
}

void RegistryTicker::Loop() {
  MutexLock lock(mutex_);
  while (!stopped_) {
    registry_.Tick();
    const Judgement judgement = registry_.judgement();
    const bool is_up = judgement.verdict != v1::ClusterHealth::DOWN;
    if (listener_ != nullptr && (!is_told_ || is_up != was_up_)) {
      if (is_told_) {
        spdlog::log(is_up ? spdlog::level::info : spdlog::level::warn,
                    "cluster: {}", judgement.reason);
      }
      listener_(is_up);
      is_told_ = true;
      was_up_ = is_up;
    }
    changed_.WaitUntil(mutex_, absl::Now() + interval_);
  }
}

}  // namespace deltafin
