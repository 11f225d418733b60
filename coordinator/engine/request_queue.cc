#include "coordinator/engine/request_queue.h"

#include <algorithm>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

RequestQueue::RequestQueue(int max_queued) : max_queued_(max_queued) {}

absl::StatusOr<RequestId> RequestQueue::Push(
    std::unique_ptr<LiveRequest> request) {
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the engine is shut down");
  if (waiting_.size() >= max_queued_) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} requests wait already; try again later", waiting_.size()));
  }
  const RequestId id = ++last_id_;
  unfinished_[id] = request.get();
  waiting_.push_back({id, std::move(request)});
  changed_.NotifyAll();
  return id;
}

void RequestQueue::Cancel(RequestId id) {
  MutexLock lock(mutex_);
  const auto found = unfinished_.find(id);
  if (found != unfinished_.end()) found->second->Cancel();
}

void RequestQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

bool RequestQueue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

bool RequestQueue::WaitForWork(bool busy) {
  MutexLock lock(mutex_);
  while (!busy && !closed_ && waiting_.empty()) changed_.Wait(mutex_);
  return !closed_;
}

LiveRequest* RequestQueue::Front() {
  MutexLock lock(mutex_);
  return waiting_.empty() ? nullptr : waiting_.front().request.get();
}

AcceptedRequest RequestQueue::Pop() {
  MutexLock lock(mutex_);
  AcceptedRequest front = std::move(waiting_.front());
  waiting_.pop_front();
  return front;
}

std::vector<AcceptedRequest> RequestQueue::RemoveEnded() {
  MutexLock lock(mutex_);
  const auto ended = std::stable_partition(
      waiting_.begin(), waiting_.end(), [](const AcceptedRequest& waiting) {
        return waiting.request->EndedFromOutside().ok();
      });
  std::vector<AcceptedRequest> removed(std::make_move_iterator(ended),
                                       std::make_move_iterator(waiting_.end()));
  waiting_.erase(ended, waiting_.end());
  return removed;
}

void RequestQueue::Forget(RequestId id) {
  MutexLock lock(mutex_);
  unfinished_.erase(id);
}

}  // namespace deltafin
