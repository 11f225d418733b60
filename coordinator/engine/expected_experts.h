// coordinator/engine/expected_experts.h
//
// What each node is told that the next layer will probably want: the runs at
// their homes, for nodes where reading ahead pays. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/cluster/placement.h"
#include "coordinator/engine/read_ahead_gate.h"
#include "proto/expert.pb.h"

namespace deltafin {

class ExpectedExperts {
 public:
  void Grow(int num_nodes);

  // A reply of the node, and the end of its stream.
  void Learn(int node, const v1::LayerReply& reply) {
    gates_[node].Learn(reply);
  }
  void Forget(int node) { gates_[node] = ReadAheadGate(); }

  // Reading ahead pays there, as far as is known.
  bool pays(int node) const { return gates_[node].open(); }

  // Writes the messages about `layer`; experts in any order, several times too.
  void Plan(const Placement& placement, int layer,
            std::span<const int32_t> experts);
  // Takes the node's message back.
  void Drop(int node);
  void DropAll();
  // The node's message, or null.
  const v1::NodeRequest* message(int node) const;

 private:
  std::vector<ReadAheadGate> gates_;
  std::vector<v1::NodeRequest> messages_;
  std::vector<NodeRun> runs_;     // scratch
  std::vector<int32_t> experts_;  // scratch
};

}  // namespace deltafin
