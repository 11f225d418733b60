#include "expert_node/storage/retry_budget.h"

#include <algorithm>

namespace deltafin {

RetryBudget::RetryBudget(RetryBudgetOptions options, const Clock& clock)
    : options_(options), clock_(clock), left_(options.capacity) {}

bool RetryBudget::TakeRetry() {
  MutexLock lock(mutex_);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void RetryBudget::Succeeded() {
  MutexLock lock(mutex_);
  left_ = std::min(left_ + options_.per_success, options_.capacity);
}

bool RetryBudget::Pause(absl::Duration duration) {
  const absl::Time now = clock_.Now();
  MutexLock lock(mutex_);
  if (duration > options_.longest_pause) return false;
  const bool known = not_before_ > now;
  if (!known && left_ < 1) return false;
  if (!known) {
    left_ -= 1;
    ++num_pauses_;
  }
  not_before_ = std::max(not_before_, now + duration);
  return true;
}

absl::Time RetryBudget::not_before() const {
  MutexLock lock(mutex_);
  return not_before_;
}

uint64_t RetryBudget::num_pauses() const {
  MutexLock lock(mutex_);
  return num_pauses_;
}

}  // namespace deltafin
