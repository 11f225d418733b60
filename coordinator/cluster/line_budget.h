// coordinator/cluster/line_budget.h
//
// Bounds the log lines about something that may change very often.
// Thread-compatible.
#pragma once

#include <utility>

#include "absl/time/time.h"

namespace deltafin {

class LineBudget {
 public:
  explicit LineBudget(int lines_per_minute) : lines_(lines_per_minute) {}

  // May a line be written now? Counts those that may not.
  bool Take(absl::Duration now) {
    if (now - minute_began_ >= absl::Minutes(1)) {
      minute_began_ = now;
      taken_ = 0;
    }
    if (taken_ == lines_) {
      ++left_out_;
      return false;
    }
    ++taken_;
    return true;
  }
  // Lines that were not written, to tell with the next one.
  int TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  const int lines_;
  absl::Duration minute_began_ = -absl::InfiniteDuration();
  int taken_ = 0;
  int left_out_ = 0;
};

}  // namespace deltafin
