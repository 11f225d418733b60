// expert_node/storage/drive_turns.h
//
// How many reads of a drive are under way at once: as many as keep it busy.
// Readers are more than that, so that whoever has its bytes checks them while
// another one's read is on the drive already. Thread-safe.
#pragma once

#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace deltafin {

class DriveTurns {
 public:
  // Leave to read, given back when it ends.
  class Turn {
   public:
    explicit Turn(DriveTurns& turns) : turns_(&turns) {}
    Turn(Turn&& other) noexcept
        : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->GiveBack();
    }

   private:
    DriveTurns* turns_;
  };

  // REQUIRES: num_turns >= 1.
  explicit DriveTurns(int num_turns) : free_(num_turns) {
    CHECK(num_turns >= 1);
  }
  DriveTurns(const DriveTurns&) = delete;
  DriveTurns& operator=(const DriveTurns&) = delete;

  // Blocks while all turns are taken; no order among those who wait.
  Turn Take() {
    MutexLock lock(mutex_);
    ++num_waiting_;
    while (free_ == 0) given_back_.Wait(mutex_);
    --num_waiting_;
    --free_;
    return Turn(*this);
  }

  // Threads in Take, as of now.
  int num_waiting() const {
    MutexLock lock(mutex_);
    return num_waiting_;
  }

 private:
  void GiveBack() {
    {
      MutexLock lock(mutex_);
      ++free_;
    }
    given_back_.NotifyOne();  // unlocked, so that who wakes goes on at once
  }

  mutable Mutex mutex_;
  CondVar given_back_;
  int free_ ABSL_GUARDED_BY(mutex_);
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
