// tests/testing/manual_clock.h
//
// A clock that stands still until it is moved. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace deltafin {

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + Elapsed(); }
  absl::Duration Elapsed() const override {
    return absl::Nanoseconds(nanoseconds_.load());
  }
  void Advance(absl::Duration duration) {
    nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(duration));
  }

 private:
  std::atomic<int64_t> nanoseconds_{0};
};

}  // namespace deltafin
