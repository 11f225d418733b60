// coordinator/cluster/lane_counter.h
//
// Sixty-four counters in the bits of a few words: counts, for 64 pairs at once,
// how many sets contain them. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>

namespace deltafin {

class LaneCounter {
 public:
  static constexpr int kMost = 511;  // that a lane may count

  void Clear() { planes_ = {}; }
  // Counts one in the lanes whose bit is set.
  void Add(uint64_t lanes) {
    for (uint64_t& plane : planes_) {
      const uint64_t carry = plane & lanes;
      plane ^= lanes;
      lanes = carry;
      if (lanes == 0) return;
    }
  }
  // Of the lanes whose bit is set in `among`. REQUIRES: there is one.
  int Least(uint64_t among) const {
    int least = 0;
    for (int i = kPlanes - 1; i >= 0; --i) {
      const uint64_t smaller = among & ~planes_[i];
      if (smaller != 0) {
        among = smaller;
      } else {
        least |= 1 << i;
      }
    }
    return least;
  }
  // Lanes that count less than `bound`, 1 to kMost.
  uint64_t Below(int bound) const {
    uint64_t below = 0;
    uint64_t equal = ~uint64_t{0};
    for (int i = kPlanes - 1; i >= 0; --i) {
      if (bound >> i & 1) {
        below |= equal & ~planes_[i];
        equal &= planes_[i];
      } else {
        equal &= ~planes_[i];
      }
    }
    return below;
  }

 private:
  static constexpr int kPlanes = 9;
  std::array<uint64_t, kPlanes> planes_ = {};  // least significant first
};

}  // namespace deltafin
