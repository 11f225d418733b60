// expert_node/slice_queue.h
//
// Turns of those who ask a machine for slices: in the order in which they came,
// so many at once, and copies no faster than the cluster copies, however many
// machines ask. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "expert_node/copy_pace.h"

namespace deltafin {

class SliceQueue {
 public:
  // A caller's turn, until destroyed. The queue must outlive it.
  class Turn {
   public:
    explicit Turn(SliceQueue& queue) : queue_(&queue) {}
    Turn(Turn&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_ != nullptr) queue_->End();
    }

   private:
    SliceQueue* queue_;
  };

  // What is to be done in a turn: `bytes` of a copy within this budget, bytes a
  // second; 0: as soon as it goes. A budget too small to be one counts as the
  // smallest.
  struct Work {
    uint64_t bytes = 0;
    uint64_t bytes_per_second = 0;
  };

  // `max_waiting` callers may wait besides those whose turn it is. `clock` must
  // outlive the object.
  SliceQueue(int at_once, int max_waiting, const Clock& clock = SystemClock())
      : at_once_(at_once), max_waiting_(max_waiting), clock_(clock) {}

  // Blocks until it is the caller's turn. `cancelled` is asked meanwhile, and
  // must not come back to this. Errors: RESOURCE_EXHAUSTED when too many wait;
  // CANCELLED.
  absl::StatusOr<Turn> Wait(const Work& work,
                            absl::FunctionRef<bool()> cancelled);

 private:
  // Nobody is before the caller.
  bool IsNext(uint64_t ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.front() == ticket && num_turns_ < at_once_;
  }
  void End();

  const int at_once_;
  const int max_waiting_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  CopyPace pace_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);  // tickets
  int num_turns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
