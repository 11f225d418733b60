// coordinator/cluster/cut_policy.h
//
// Which node computes which slices of an expert. Any node that holds a slice
// can compute it and the sum is the same (docs/numerics.md section 8), so a
// policy is about load and locality, never about answers. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/expert_key.h"
#include "kernels/expert_weights.h"

namespace deltafin {

struct NodeRun {
  int node = 0;
  SliceRun slices;
  friend bool operator==(const NodeRun&, const NodeRun&) = default;
};

class CutPolicy {
 public:
  virtual ~CutPolicy() = default;
  // Replaces *runs by runs that cover every slice of the expert exactly once,
  // ascending. The same for the same key, always.
  virtual void Cut(ExpertKey key, std::vector<NodeRun>* runs) const = 0;
};

// Every expert over all nodes in proportion to their weights. A share that is
// no whole number of slices alternates between the two next to it, in a
// sequence spread evenly over the experts of a layer, so that the sum over any
// few experts is close to proportional. A node of weight 0 gets nothing.
// REQUIRES: weights are finite and >= 0, one is > 0; num_slices >= 1.
std::unique_ptr<CutPolicy> NewProportionalCut(std::span<const double> weights,
                                              int num_slices);

// Each expert whole on one node, nodes drawn in proportion to their weights:
// what clusters without slices do, to compare with. REQUIRES: as above.
std::unique_ptr<CutPolicy> NewWholeExperts(std::span<const double> weights,
                                           int num_slices);

// Random cuts and owners among the nodes of weight > 0, fixed by the seed:
// shows in tests that placement cannot change an answer. REQUIRES: as above.
std::unique_ptr<CutPolicy> NewRandomCut(std::span<const double> weights,
                                        int num_slices, uint64_t seed);

}  // namespace deltafin
