#include "tests/client/slow_prefill.h"

#include "absl/time/clock.h"

namespace deltafin::testing {

absl::StatusOr<std::span<const int64_t>> SlowPrefill::Wait(
    const std::function<bool()>& cancelled) {
  while (clock_.Elapsed() < ready_at_) {
    if (cancelled()) return absl::CancelledError("step abandoned");
    absl::SleepFor(absl::Milliseconds(1));
  }
  return FakeRoutedExperts::Wait(cancelled);
}

}  // namespace deltafin::testing
