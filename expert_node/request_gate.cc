#include "expert_node/request_gate.h"

namespace deltafin {

std::optional<RequestGate::Pass> RequestGate::Enter() {
  MutexLock lock(mutex_);
  if (closed_) return std::nullopt;
  ++inside_;
  return Pass(*this);
}

void RequestGate::Pass::Leave() {
  if (gate_ == nullptr) return;
  MutexLock lock(gate_->mutex_);
  if (--gate_->inside_ == 0) gate_->emptied_.NotifyAll();
}

void RequestGate::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool RequestGate::WaitUntilEmpty(absl::Time deadline) {
  MutexLock lock(mutex_);
  while (inside_ > 0) {
    if (!emptied_.WaitUntil(mutex_, deadline)) return inside_ == 0;
  }
  return true;
}

int64_t RequestGate::num_inside() const {
  MutexLock lock(mutex_);
  return inside_;
}

}  // namespace deltafin
