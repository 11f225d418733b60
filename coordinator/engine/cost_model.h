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
  // It was not observed for a while, or never: what else tells of its link is
  // worth asking for.
  bool is_stale(int slot, absl::Time now) const;
  // `round_trip`: the least that a message there and back took lately, or zero
  // where nothing tells. It stands for the latency of a node that is not known
  // (whose work costs nothing then) and, where it is less, of one that was not
  // observed for a while. Where nothing tells, the latter is believed to have
  // none, once, so that a slow link is tried again; the pause doubles each time
  // that was in vain.
  NodeCost CostOf(int slot, absl::Time now,
                  absl::Duration round_trip = absl::ZeroDuration());

  // How long a part is expected to take. REQUIRES: knows(slot).
  absl::Duration Expected(int slot, double units) const;

 private:
  struct Node {
    bool known = false;
    bool knows_latency = false;  // until then it is zero
    NodeCost cost;
    absl::Time observed;
    absl::Time tried = absl::InfinitePast();      // though left alone
    absl::Duration pause = absl::ZeroDuration();  // until it is tried again
  };

  std::vector<Node> nodes_;
};

}  // namespace deltafin
