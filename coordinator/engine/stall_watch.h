// coordinator/engine/stall_watch.h
//
// Tells a node that is silent for too long from one that has much to do.
// Thread-compatible.
#pragma once

#include <span>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/engine/cost_model.h"
#include "coordinator/engine/dispatch_plan.h"

namespace deltafin {

class StallWatch {
 public:
  // No node is stalled sooner than after `at_least`.
  explicit StallWatch(absl::Duration at_least) : at_least_(at_least) {}

  // A layer begins: all were heard of now.
  void Begin(int num_nodes, absl::Time now);
  void Grow(int num_nodes) { last_heard_.resize(num_nodes); }
  void Heard(int node, absl::Time now) { last_heard_[node] = now; }
  absl::Time last_heard(int node) const { return last_heard_[node]; }

  // Silent for ten times as long as its open parts should take.
  bool IsStalled(int node, std::span<const PlannedPart> parts,
                 const CostModel& costs, absl::Time now) const;

 private:
  const absl::Duration at_least_;
  std::vector<absl::Time> last_heard_;
};

}  // namespace deltafin
