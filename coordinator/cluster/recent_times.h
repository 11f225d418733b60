// coordinator/cluster/recent_times.h
//
// The last times of something, in a window of fixed size, and their
// percentiles. Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace deltafin {

class RecentTimes {
 public:
  void Add(absl::Duration time) {
    const int64_t us = absl::ToInt64Microseconds(time);
    window_[next_] =
        static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
    next_ = (next_ + 1) % window_.size();
    size_ = std::min(size_ + 1, window_.size());
  }

  // The least of the window that at least this fraction of it does not exceed,
  // in microseconds; 0 when it is empty. REQUIRES: 0 < fraction <= 1.
  uint32_t Percentile(double fraction) const {
    if (size_ == 0) return 0;
    std::vector<uint32_t> sorted(window_.begin(), window_.begin() + size_);
    std::sort(sorted.begin(), sorted.end());
    const auto rank =
        static_cast<size_t>(fraction * static_cast<double>(size_) + 0.999999);
    return sorted[std::clamp<size_t>(rank, 1, size_) - 1];
  }

 private:
  std::array<uint32_t, 128> window_ = {};
  size_t next_ = 0;
  size_t size_ = 0;
};

}  // namespace deltafin
