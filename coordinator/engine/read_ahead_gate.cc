#include "coordinator/engine/read_ahead_gate.h"

#include <algorithm>

namespace deltafin {

void ReadAheadGate::Learn(const v1::LayerReply& reply) {
  // A node that started anew counts from 0.
  const bool goes_on = knows_totals_ && reply.expected_used() >= used_total_ &&
                       reply.expected_wasted() >= wasted_total_;
  if (goes_on) {
    used_ += reply.expected_used() - used_total_;
    wasted_ += reply.expected_wasted() - wasted_total_;
  }
  knows_totals_ = true;
  used_total_ = reply.expected_used();
  wasted_total_ = reply.expected_wasted();
  if (rest_ > 0) {
    --rest_;
    used_ = wasted_ = 0;
    return;
  }
  if (++replies_ == kTrial) Decide();
}

void ReadAheadGate::Decide() {
  const bool pays = used_ > 0 && used_ * kWorthwhile >= used_ + wasted_;
  if (pays) {
    next_rest_ = kFirstRest;
  } else {
    rest_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, kLastRest);
  }
  replies_ = 0;
  used_ = wasted_ = 0;
}

}  // namespace deltafin
