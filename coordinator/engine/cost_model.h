// coordinator/engine/cost_model.h
//
// What work costs on each node, learned from its answers. Thread-compatible.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "coordinator/cluster/cluster_view.h"

namespace deltafin {

// One unit of work is one slice of an expert for one token.
struct NodeCost {
  double latency = 0;   // seconds that pass whatever the work
  double per_unit = 0;  // seconds
};

class CostModel {
 public:
  // Learns from a part of `units` units. Parts of many rows say nothing of
  // latency: their transfer takes long.
  void Observe(int slot, const PartTiming& timing, double units, int num_rows,
               absl::Time now);
  // Forgets a node: another one has its slot, or it was away.
  void Forget(int slot);

  bool knows(int slot) const;
  // A node that was not observed for a while is believed to have no latency,
  // once, so that a slow link is tried again; the pause doubles each time that
  // was in vain. REQUIRES: knows(slot).
  NodeCost CostOf(int slot, absl::Time now);

  // How long a part is expected to take. REQUIRES: knows(slot).
  absl::Duration Expected(int slot, double units) const;

 private:
  struct Node {
    bool known = false;
    NodeCost cost;
    absl::Time observed;
    absl::Duration pause;  // until it is tried again
  };

  std::vector<Node> nodes_;
};

}  // namespace deltafin
