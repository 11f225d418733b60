#include "expert_node/request_queue.h"

#include <utility>

namespace deltafin {

RequestQueue::Turn RequestQueue::Take() {
  MutexLock lock(mutex_);
  while (true) {
    if (running_ == nullptr && !waiting_.empty()) {
      running_ = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= BytesOf(*running_);
      changed_.NotifyOne();  // the other thread may read now
      return {Task::kRun, running_};
    }
    if (!reading_ && !closed_ && HasRoom()) {
      reading_ = true;
      return {Task::kRead, nullptr};
    }
    if (closed_ && !reading_ && waiting_.empty()) return {Task::kEnd, nullptr};
    changed_.Wait(mutex_);
  }
}

void RequestQueue::FinishRead(std::shared_ptr<QueuedRequest> request) {
  MutexLock lock(mutex_);
  reading_ = false;
  if (closed_) changed_.NotifyAll();  // the other thread may wait for the end
  if (closed_ || request == nullptr) return;
  waiting_bytes_ += BytesOf(*request);
  waiting_.push_back(std::move(request));
}

void RequestQueue::FinishRun() {
  MutexLock lock(mutex_);
  running_ = nullptr;
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
