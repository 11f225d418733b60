// coordinator/engine/cut_policy.h
//
// Which node computes which slices of an expert. Any node can compute any
// slice and the sum is the same (docs/numerics.md section 8), so a policy is
// about load and locality, never about answers. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
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

// Every expert over all nodes, slices split as evenly as whole slices allow.
// The larger shares, and with fewer slices than nodes the shares themselves,
// move on from expert to expert, so that the sum over many experts is even.
// REQUIRES: num_nodes >= 1, num_slices >= 1.
std::unique_ptr<CutPolicy> NewEvenCut(int num_nodes, int num_slices);

// Random cuts and owners, fixed by the seed: shows in tests that placement
// cannot change an answer. REQUIRES: as above.
std::unique_ptr<CutPolicy> NewRandomCut(int num_nodes, int num_slices,
                                        uint64_t seed);

}  // namespace deltafin
