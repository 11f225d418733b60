#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace deltafin {
namespace {

class MachineClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Duration Elapsed() const override {
    return absl::FromChrono(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& SystemClock() {
  static const MachineClock clock;
  return clock;
}

}  // namespace deltafin
