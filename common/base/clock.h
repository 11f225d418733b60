// common/base/clock.h
//
// Time as a dependency, so that tests can move it by hand. Thread-safe.
#pragma once

#include "absl/time/time.h"

namespace deltafin {

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall time: for deadlines that cross processes and for messages.
  virtual absl::Time Now() const = 0;
  // Time since an arbitrary fixed point, never going back: for measuring.
  virtual absl::Duration Elapsed() const = 0;
};

// The machine's clocks. Lives for the whole process.
const Clock& SystemClock();

}  // namespace deltafin
