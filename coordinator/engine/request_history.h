// coordinator/engine/request_history.h
//
// The explanations of the requests that finished last. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "proto/admin.pb.h"

namespace deltafin {

class RequestHistory {
 public:
  static constexpr size_t kMaxRequests = 64;

  // Forgets the oldest above kMaxRequests.
  void Add(v1::Explanation explanation);
  // 0: the one that finished last. Errors: NOT_FOUND with what is known.
  absl::StatusOr<v1::Explanation> Find(uint64_t request) const;

 private:
  mutable Mutex mutex_;
  std::deque<v1::Explanation> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
