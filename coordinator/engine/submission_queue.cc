#include "coordinator/engine/submission_queue.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr absl::Duration kIdleInterval = absl::Milliseconds(250);

}  // namespace

SubmissionQueue::SubmissionQueue(int max_queued) : max_queued_(max_queued) {}

absl::StatusOr<RequestId> SubmissionQueue::Push(
    std::unique_ptr<LiveRequest> request) {
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the engine is shut down");
  if (waiting_.size() >= max_queued_) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} requests wait already; try again later", waiting_.size()));
  }
  const RequestId id = ++last_id_;
  request->SetId(id);
  unfinished_[id] = request.get();
  waiting_.push_back({id, std::move(request)});
  changed_.NotifyAll();
  return id;
}

void SubmissionQueue::Cancel(RequestId id) {
  MutexLock lock(mutex_);
  const auto found = unfinished_.find(id);
  if (found != unfinished_.end()) found->second->Cancel();
}

void SubmissionQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

bool SubmissionQueue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

size_t SubmissionQueue::num_waiting() const {
  MutexLock lock(mutex_);
  return waiting_.size();
}

bool SubmissionQueue::WaitForWork(bool busy, absl::FunctionRef<void()> idle) {
  mutex_.Lock();
  while (!busy && !closed_ && waiting_.empty()) {
    if (changed_.WaitUntil(mutex_, absl::Now() + kIdleInterval)) continue;
    mutex_.Unlock();
    idle();
    mutex_.Lock();
  }
  const bool open = !closed_;
  mutex_.Unlock();
  return open;
}

LiveRequest* SubmissionQueue::Front() {
  MutexLock lock(mutex_);
  return waiting_.empty() ? nullptr : waiting_.front().request.get();
}

AcceptedRequest SubmissionQueue::Pop() {
  MutexLock lock(mutex_);
  AcceptedRequest front = std::move(waiting_.front());
  waiting_.pop_front();
  return front;
}

std::vector<AcceptedRequest> SubmissionQueue::RemoveEnded() {
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

void SubmissionQueue::Forget(RequestId id) {
  MutexLock lock(mutex_);
  unfinished_.erase(id);
}

}  // namespace deltafin
