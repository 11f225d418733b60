// coordinator/engine/read_ahead_gate.h
//
// Whether a node should be told what the next layer will probably want: it
// should if it reads from its drive at all, and if enough of what it read ahead
// was then wanted. Thread-compatible.
#pragma once

#include <cstdint>

#include "proto/expert.pb.h"

namespace deltafin {

class ReadAheadGate {
 public:
  // Replies after which it is decided again.
  static constexpr int kTrial = 32;
  // Closed for this many replies at first, twice as many each time after, up to
  // the last.
  static constexpr int kFirstRest = 128;
  static constexpr int kLastRest = 8192;
  // Of the slices read ahead, one in so many must have been wanted.
  static constexpr uint64_t kWorthwhile = 4;

  bool open() const { return rest_ == 0; }

  // A reply of the node.
  void Learn(const v1::LayerReply& reply);

 private:
  void Decide();

  bool knows_totals_ = false;
  uint64_t used_total_ = 0;  // as the node said last
  uint64_t wasted_total_ = 0;
  uint64_t used_ = 0;  // in this trial
  uint64_t wasted_ = 0;
  int replies_ = 0;
  int rest_ = 0;  // replies to go until the next trial; 0: open
  int next_rest_ = kFirstRest;
};

}  // namespace deltafin
