// coordinator/engine/dispatch_plan.h
//
// The messages of one layer: which rows and which (expert, slices, weight) go
// to which node. Pure: knows no network. Thread-compatible; reused from layer
// to layer so that its memory is, too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/cluster/cut_policy.h"
#include "proto/expert.pb.h"
#include "spine_node/spine_types.h"

namespace deltafin {

// Rows in one message. A K3 row is 14 KB out and 28 KB back, so messages stay
// below 4 MiB.
inline constexpr int kMaxTokensPerMessage = 128;

// What a layer request and its replies are known by.
struct LayerId {
  uint64_t epoch = 0;
  uint64_t step = 0;
  int layer = 0;
  friend bool operator==(const LayerId&, const LayerId&) = default;
};

// One message to one node. `request` lacks only its latent rows.
struct PlannedPart {
  v1::LayerRequest request;
  std::vector<int32_t> rows;  // token of the step per row of the message
  uint64_t num_slices = 0;    // (token, expert, slice) triples asked for
};

class DispatchPlan {
 public:
  explicit DispatchPlan(int num_nodes);

  // Replaces the plan. A node's messages hold the tokens that have work there
  // and no others, ascending, at most kMaxTokensPerMessage each.
  void Build(const LayerId& id, const RoutedTokens& routed,
             const CutPolicy& policy);

  const LayerId& id() const { return id_; }
  int num_tokens() const { return num_tokens_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  std::span<PlannedPart> parts(int node);
  std::span<const PlannedPart> parts(int node) const;

 private:
  struct NodeParts {
    std::vector<PlannedPart> parts;  // the first num_used are in use
    size_t num_used = 0;
  };

  void AddAssignment(int token, int32_t expert, float weight,
                     const NodeRun& run);
  PlannedPart& NewPart(NodeParts* node);

  LayerId id_;
  int num_tokens_ = 0;
  std::vector<NodeParts> nodes_;
  std::vector<NodeRun> runs_;  // scratch
};

}  // namespace deltafin
