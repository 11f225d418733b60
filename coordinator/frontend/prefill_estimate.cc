#include "coordinator/frontend/prefill_estimate.h"

#include <algorithm>

namespace deltafin {
namespace {

// What a measurement still counts after the next one.
constexpr double kFading = 0.7;

}  // namespace

void PrefillEstimate::Add(int64_t prompt_tokens) {
  MutexLock lock(mutex_);
  waiting_tokens_ += prompt_tokens;
}

void PrefillEstimate::Remove(int64_t prompt_tokens) {
  MutexLock lock(mutex_);
  waiting_tokens_ -= prompt_tokens;
}

void PrefillEstimate::Measured(int64_t prompt_tokens, absl::Duration prefill) {
  if (prompt_tokens <= 0 || prefill <= absl::ZeroDuration()) return;
  MutexLock lock(mutex_);
  tokens_ = kFading * tokens_ + static_cast<double>(prompt_tokens);
  seconds_ = kFading * seconds_ + absl::ToDoubleSeconds(prefill);
}

std::optional<absl::Duration> PrefillEstimate::UntilFirstToken(
    int64_t prompt_tokens) const {
  MutexLock lock(mutex_);
  if (tokens_ == 0) return std::nullopt;
  const auto tokens = static_cast<double>(waiting_tokens_ + prompt_tokens);
  return absl::Seconds(tokens * seconds_ / tokens_);
}

}  // namespace deltafin
