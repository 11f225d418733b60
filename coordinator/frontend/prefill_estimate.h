// coordinator/frontend/prefill_estimate.h
//
// How long a new request will wait for its first token, from how long others
// did. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

class PrefillEstimate {
 public:
  // A prompt waits, and one that did has its first token or has ended.
  void Add(int64_t prompt_tokens);
  void Remove(int64_t prompt_tokens);
  // How long one took, from its first step to its first token. Later ones count
  // more.
  void Measured(int64_t prompt_tokens, absl::Duration prefill);

  // For `prompt_tokens` after all prompts that wait; nullopt before the first
  // measurement.
  std::optional<absl::Duration> UntilFirstToken(int64_t prompt_tokens) const;

 private:
  mutable Mutex mutex_;
  int64_t waiting_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  double tokens_ ABSL_GUARDED_BY(mutex_) = 0;   // measured, fading
  double seconds_ ABSL_GUARDED_BY(mutex_) = 0;  // that they took
};

}  // namespace deltafin
