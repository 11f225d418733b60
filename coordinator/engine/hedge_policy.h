// coordinator/engine/hedge_policy.h
//
// When is a node's part of a layer late enough to be asked of another node as
// well, and may it be? Learns how answers spread around what was expected.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cluster/recent_times.h"

namespace deltafin {

class HedgePolicy {
 public:
  // `budget`: slices that may be asked for twice, of each that is asked for. 0:
  // none. Unused budget is kept for a while only.
  explicit HedgePolicy(double budget) : budget_(budget) {}

  bool enabled() const { return budget_ > 0; }

  // A layer's slices were asked for.
  void Earn(int64_t slices);
  // Takes `slices` from the budget; false: it does not allow for them.
  bool Spend(int64_t slices);

  // A part was answered after `elapsed` where `expected` was expected.
  void Observe(int node, absl::Duration elapsed, absl::Duration expected);
  // Another node has its slot, or it was away.
  void Forget(int node);
  // A part of which `expected` is expected is late after this: later than 95 of
  // 100 of the node's last parts, by half.
  absl::Duration LateAfter(int node, absl::Duration expected) const;

 private:
  struct Node {
    RecentTimes ratios;  // elapsed by expected, in seconds
    int64_t num_observed = 0;
    double usual = 0;  // 95th percentile of the ratios
  };

  const double budget_;
  double allowed_ = 0;  // slices
  double most_ = 0;     // that may be kept
  std::vector<Node> nodes_;
};

}  // namespace deltafin
