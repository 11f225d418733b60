// coordinator/engine/dispatch_plan.h
//
// The messages of one layer: which rows and which (expert, slices, weight) go
// to which node, and what became of each. Work that a node does not do is
// planned again for others. Pure: knows no network. Thread-compatible; reused
// from layer to layer so that its memory is, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
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

// A part of the plan: the part-th message to a node.
struct PartRef {
  int node = 0;
  int part = 0;
  friend bool operator==(const PartRef&, const PartRef&) = default;
};

enum class PartState : uint8_t {
  kOpen,        // its answer would count
  kAnswered,    // its answer was counted
  kSuperseded,  // others' answers stand for it, or will: its own is dropped
};

// One message to one node. `request` lacks only its latent rows.
struct PlannedPart {
  v1::LayerRequest request;
  std::vector<int32_t> rows;  // token of the step per row of the message
  uint64_t num_slices = 0;    // (token, expert, slice) triples asked for
  double units = 0;           // of work (layer_assignment.h)

  PartState state = PartState::kOpen;
  absl::Time sent = absl::InfiniteFuture();
  int64_t stream = 0;  // that it was sent on
  // An error that the node answered it with; OK: none.
  absl::Status refusal;
  // The part that this one does some of the work of.
  std::optional<PartRef> replaces;
  // It is asked for because that one is late, not because it is lost.
  bool is_hedge = false;
  // Parts that together do the work of this one. The first answer among this
  // part and those decides which of the two counts.
  std::vector<PartRef> replaced_by;
  // Nodes that cannot do it, each with an error of its own.
  std::vector<int> refused_by;
  // Since when no node is known that could do it.
  absl::Time stranded_since = absl::InfiniteFuture();
};

// What an assignment asks for.
SliceRun RunOf(const v1::LayerRequest& request, int assignment);

class DispatchPlan {
 public:
  // Runs of an expert, covering each of its slices once.
  using CutExpert =
      absl::FunctionRef<void(int32_t expert, std::vector<NodeRun>* runs)>;
  // Work of one (token, slice) of the expert.
  using UnitsOf = absl::FunctionRef<double(int32_t expert)>;

  // Replaces the plan. A node's messages hold the tokens that have work there
  // and no others, ascending, at most kMaxTokensPerMessage each.
  void Build(const LayerId& id, const RoutedTokens& routed, int num_nodes,
             CutExpert cut, UnitsOf units);

  // Plans the work of a part again. `runs[i]` covers what its i-th assignment
  // asks for. REQUIRES: it is open and has no replacement.
  void Replace(PartRef ref, std::span<const std::vector<NodeRun>> runs);
  // Nodes that came since.
  void Grow(int num_nodes);
  // Its answer was counted: what stands for it, and what it stands for, is
  // superseded. REQUIRES: it is open.
  void MarkAnswered(PartRef ref);

  const LayerId& id() const { return id_; }
  int num_tokens() const { return num_tokens_; }
  int num_nodes() const { return num_nodes_; }
  std::span<PlannedPart> parts(int node);
  std::span<const PlannedPart> parts(int node) const;
  PlannedPart& part(PartRef ref) { return nodes_[ref.node].parts[ref.part]; }
  const PlannedPart& part(PartRef ref) const {
    return nodes_[ref.node].parts[ref.part];
  }

  // Every part of the layer's first plan is answered, by itself or by what
  // stands for it.
  bool complete() const { return num_incomplete_ == 0; }
  // Open parts of the node.
  int num_open(int node) const { return nodes_[node].num_open; }

 private:
  struct NodeParts {
    std::vector<PlannedPart> parts;  // the first num_used are in use
    size_t num_used = 0;
    size_t first_growing = 0;  // parts from here on take further rows
    int num_open = 0;
  };
  // (token, expert) with its router weight.
  struct Choice {
    int32_t token = 0;
    int32_t expert = 0;
    float weight = 0;
    double units = 0;  // of each slice
  };

  void Add(const Choice& choice, const NodeRun& run);
  PlannedPart& NewPart(int node);
  void Supersede(PartRef ref);
  bool IsComplete(PartRef ref) const;

  LayerId id_;
  int num_tokens_ = 0;
  int num_nodes_ = 0;
  int num_incomplete_ = 0;
  std::vector<NodeParts> nodes_;  // the first num_nodes_ are in use
  std::vector<NodeRun> runs_;     // scratch
};

}  // namespace deltafin
