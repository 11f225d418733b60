#include "expert_node/request_queue.h"

#include <algorithm>
#include <utility>

namespace deltafin {
namespace {

bool SameLayer(const LayerWork& a, const LayerWork& b) {
  return a.epoch == b.epoch && a.step == b.step && a.layer == b.layer;
}

}  // namespace

RequestQueue::Turn RequestQueue::Take() {
  MutexLock lock(mutex_);
  while (true) {
    absl::Time wake = absl::InfiniteFuture();
    if (running_.empty() && !waiting_.empty()) {
      const Run run = NextRun();
      wake = WaitOf(run);
      if (wake == absl::InfinitePast() || wake <= absl::Now()) {
        return {Task::kRun, Begin(run)};
      }
    }
    if (!reading_ && !closed_ && HasRoom()) {
      reading_ = true;
      return {Task::kRead, {}};
    }
    if (closed_ && !reading_ && waiting_.empty()) return {Task::kEnd, {}};
    changed_.WaitUntil(mutex_, wake);
  }
}

RequestQueue::Run RequestQueue::NextRun() const {
  const QueuedRequest& oldest = *waiting_.front();
  Run run;
  int num_tokens = 0;
  uint32_t num_parts = 0;
  bool full = false;
  bool others_wait = false;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const LayerWork& work = waiting_[i]->work;
    if (!SameLayer(work, oldest.work)) {
      others_wait = true;
      continue;
    }
    full = i > 0 && num_tokens + work.num_tokens > limits_.max_run_tokens;
    if (full) break;
    run.members.push_back(i);
    num_tokens += work.num_tokens;
    num_parts = std::max(num_parts, work.num_parts);
  }
  run.may_grow = !full && !others_wait && !oldest.cancelled &&
                 num_tokens < limits_.max_run_tokens &&
                 NumRunOf(oldest.work) + run.members.size() < num_parts;
  return run;
}

absl::Time RequestQueue::WaitOf(const Run& run) const {
  const bool can_grow = !closed_ && (reading_ || HasRoom());
  return run.may_grow && can_grow ? waiting_.back()->arrival + limits_.part_wait
                                  : absl::InfinitePast();
}

RequestQueue::Requests RequestQueue::Begin(const Run& run) {
  uint32_t num_parts = 0;
  for (const size_t i : run.members) {
    waiting_bytes_ -= BytesOf(*waiting_[i]);
    num_parts = std::max(num_parts, waiting_[i]->work.num_parts);
    running_.push_back(std::move(waiting_[i]));
  }
  std::erase(waiting_, nullptr);
  const LayerWork& work = running_.front()->work;
  const size_t num_run = NumRunOf(work) + run.members.size();
  // Once all have run, parts of the same name are a repetition.
  progress_ = {work.epoch, work.step, work.layer,
               num_run < num_parts ? num_run : 0};
  changed_.NotifyOne();  // the other thread may read now
  return running_;
}

size_t RequestQueue::NumRunOf(const LayerWork& work) const {
  return progress_.epoch == work.epoch && progress_.step == work.step &&
                 progress_.layer == work.layer
             ? progress_.num_run
             : 0;
}

void RequestQueue::FinishRead(std::shared_ptr<QueuedRequest> request) {
  MutexLock lock(mutex_);
  reading_ = false;
  if (closed_) changed_.NotifyAll();  // the other thread may wait for the end
  if (closed_ || request == nullptr) return;
  // The other thread is to watch the time while this one reads on.
  if (request->work.num_parts > 1) changed_.NotifyAll();
  waiting_bytes_ += BytesOf(*request);
  waiting_.push_back(std::move(request));
}

void RequestQueue::FinishRun() {
  MutexLock lock(mutex_);
  running_.clear();
}

int RequestQueue::CancelStep(uint64_t epoch, uint64_t step) {
  MutexLock lock(mutex_);
  int count = 0;
  const auto cancel = [&](QueuedRequest& request) {
    if (request.work.epoch != epoch || request.work.step != step) return;
    if (!request.cancelled.exchange(true)) ++count;
  };
  for (const auto& request : waiting_) cancel(*request);
  for (const auto& request : running_) cancel(*request);
  if (count > 0) changed_.NotifyAll();  // a run may wait for more parts
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
  for (const auto& request : running_) request->cancelled = true;
  return dropped;
}

size_t RequestQueue::depth() const {
  MutexLock lock(mutex_);
  return waiting_.size() + running_.size();
}

}  // namespace deltafin
