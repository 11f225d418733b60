#include "expert_node/slice_queue.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// How late a caller notices that it was cancelled, at most.
constexpr absl::Duration kAskCancelled = absl::Milliseconds(100);
// No coordinator has a smaller budget (docs/configuration.md): one caller shall
// not keep the others waiting for long.
constexpr uint64_t kLeastBudget = 64 << 10;

}  // namespace

absl::StatusOr<SliceQueue::Turn> SliceQueue::Wait(
    const Work& work, absl::FunctionRef<bool()> cancelled) {
  MutexLock lock(mutex_);
  if (static_cast<int>(waiting_.size()) >= max_waiting_) {
    return absl::ResourceExhaustedError(
        fmt::format("{} callers wait for slices already: ask another owner, or "
                    "later",
                    waiting_.size()));
  }
  const uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  while (true) {
    if (cancelled()) {
      std::erase(waiting_, ticket);
      changed_.NotifyAll();
      return absl::CancelledError("cancelled");
    }
    const absl::Duration now = clock_.Elapsed();
    if (IsNext(ticket) && now >= pace_.next()) break;
    const absl::Duration pause =
        IsNext(ticket) ? std::min(kAskCancelled, pace_.next() - now)
                       : kAskCancelled;
    changed_.WaitUntil(mutex_, absl::Now() + pause);
  }
  waiting_.pop_front();
  ++num_turns_;
  const bool has_budget = work.bytes_per_second > 0;
  pace_.SetBudget(has_budget ? std::max(work.bytes_per_second, kLeastBudget)
                             : 0);
  pace_.Begin(work.bytes, clock_.Elapsed());
  changed_.NotifyAll();
  return Turn(*this);
}

void SliceQueue::End() {
  MutexLock lock(mutex_);
  --num_turns_;
  changed_.NotifyAll();
}

}  // namespace deltafin
