// expert_node/copy_pace.h
//
// How fast copying may go, and how fast it goes. Pure; thread-compatible.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace deltafin {

// Whoever begins a copy at next() or later, and tells so, begins in any time t
// copies of at most budget * t bytes and one more.
class CopyPace {
 public:
  // Bytes a second; 0: as fast as it goes. Of what begins from now on.
  void SetBudget(uint64_t bytes_per_second) { budget_ = bytes_per_second; }
  uint64_t budget() const { return budget_; }

  // How long copying `bytes` may take; 0 without a budget.
  absl::Duration TimeOf(uint64_t bytes) const;

  // A copy of `bytes` begins, whatever becomes of it. Times are since any fixed
  // point.
  void Begin(uint64_t bytes, absl::Duration now);

  // When the next copy may begin, by the same clock: once those before have
  // used up their time in the budget. Time that was not used is not saved up.
  absl::Duration next() const { return next_; }

  // `bytes` were copied, from `begun` to `ended`.
  void Copied(uint64_t bytes, absl::Duration begun, absl::Duration ended);

  // Bytes a second of the last minute or so, pauses included; 0: none yet.
  double rate() const;

 private:
  uint64_t budget_ = 0;
  absl::Duration next_;
  // Of what was copied: weights halve every kHalfLife.
  absl::Duration last_;
  double bytes_ = 0;
  double seconds_ = 0;
};

}  // namespace deltafin
