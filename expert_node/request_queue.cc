#include "expert_node/request_queue.h"

#include <utility>

namespace deltafin {

// A request over the byte limit on its own is let through when it is alone.
bool RequestQueue::HasRoomFor(const QueuedRequest& request) const {
  if (waiting_.empty()) return true;
  return waiting_.size() < limits_.max_requests &&
         waiting_bytes_ + BytesOf(request) <= limits_.max_bytes;
}

bool RequestQueue::Push(std::shared_ptr<QueuedRequest> request) {
  MutexLock lock(mutex_);
  while (!closed_ && !HasRoomFor(*request)) changed_.Wait(mutex_);
  if (closed_) return false;
  waiting_bytes_ += BytesOf(*request);
  waiting_.push_back(std::move(request));
  changed_.NotifyAll();
  return true;
}

std::shared_ptr<QueuedRequest> RequestQueue::Pop() {
  MutexLock lock(mutex_);
  running_ = nullptr;
  while (!closed_ && waiting_.empty()) changed_.Wait(mutex_);
  if (waiting_.empty()) return nullptr;
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= BytesOf(*running_);
  changed_.NotifyAll();
  return running_;
}

int RequestQueue::CancelStep(uint64_t epoch, uint64_t step) {
  MutexLock lock(mutex_);
  int count = 0;
  const auto cancel = [&](QueuedRequest& request) {
    if (request.work.epoch != epoch || request.work.step != step) return;
    if (!request.cancelled.exchange(true)) ++count;
  };
  for (const auto& request : waiting_) cancel(*request);
  if (running_ != nullptr) cancel(*running_);
  return count;
}

int RequestQueue::Close(CloseMode mode) {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
  if (mode == CloseMode::kFinish) return 0;
  const int dropped = static_cast<int>(waiting_.size());
  waiting_.clear();
  waiting_bytes_ = 0;
  if (running_ != nullptr) running_->cancelled = true;
  return dropped;
}

size_t RequestQueue::depth() const {
  MutexLock lock(mutex_);
  return waiting_.size() + (running_ != nullptr ? 1 : 0);
}

}  // namespace deltafin
