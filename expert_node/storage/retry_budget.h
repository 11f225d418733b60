// expert_node/storage/retry_budget.h
//
// What all requests to a server share: how many of them may be tried again, and
// until when nobody may ask. One for each server, however many sources and
// threads use it. Thread-safe; never blocks.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace deltafin {

struct RetryBudgetOptions {
  // Retries that may be spent before any request succeeds. Larger survives
  // worse networks, smaller stops sooner.
  double capacity = 64;
  // Retries that a success gives back, up to the capacity. So in the long run
  // at most one request in ten is a second try.
  double per_success = 0.1;
  // Longest wait that a server may ask for.
  absl::Duration longest_pause = absl::Minutes(15);
};

class RetryBudget {
 public:
  // `clock` must outlive the budget.
  explicit RetryBudget(RetryBudgetOptions options = {},
                       const Clock& clock = SystemClock());

  // Takes one retry; false when none is left.
  bool TakeRetry();
  void Succeeded();

  // The server asked for silence. False when it asked for more than
  // longest_pause, or no retry is left; one is taken for each pause, not for
  // each request that met it.
  bool Pause(absl::Duration duration);
  // Nobody may send before; infinite past without a pause.
  absl::Time not_before() const;
  // Pauses so far.
  uint64_t num_pauses() const;

  const Clock& clock() const { return clock_; }

 private:
  const RetryBudgetOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  double left_ ABSL_GUARDED_BY(mutex_);
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t num_pauses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
