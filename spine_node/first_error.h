// spine_node/first_error.h
//
// Collects the errors of parallel tasks and keeps the one of the lowest rank,
// so that the error reported does not depend on threads. Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/mutex.h"

namespace deltafin {

// Status: absl::Status or OperatorStatus; a default-constructed one is ok.
template <typename Status>
class FirstError {
 public:
  void Report(int64_t rank, Status status) {
    if (status.ok()) return;
    MutexLock lock(mutex_);
    if (rank >= rank_) return;
    rank_ = rank;
    status_ = std::move(status);
  }

  // Ok if no error was reported.
  Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  int64_t rank_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
