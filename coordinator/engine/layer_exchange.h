// coordinator/engine/layer_exchange.h
//
// One layer's messages to all nodes and back: sends the parts of a plan as the
// streams take them, adds the replies. Thread-compatible: Begin and Run may be
// called by different threads, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/engine/dispatch_plan.h"
#include "coordinator/engine/expert_client.h"
#include "coordinator/engine/reduction.h"

namespace deltafin {

// What a node's counted replies said, summed.
struct NodeWork {
  int64_t replies = 0;
  int64_t slices_computed = 0;  // (token, expert, slice) triples
  int64_t bytes_read = 0;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t replies_dropped = 0;  // late or duplicate
  double queue_seconds = 0;
  double read_seconds = 0;
  double compute_seconds = 0;
};

class LayerExchange {
 public:
  // Both must outlive this. latent_size: L.
  LayerExchange(ExpertClients& clients, const ElementwiseKernel& kernel,
                int latent_size);

  // Plans the layer, connects nodes that are not connected and have work, and
  // sends the first message to each. `routed` is used until Run returns.
  // Errors: those of ExpertClients::Connect, with layer and expert.
  absl::Status Begin(const LayerId& id, const RoutedTokens& routed,
                     const CutPolicy& policy, absl::Duration connect_timeout);

  // Moves messages until every part is answered. `stopped` is polled. Errors:
  // CANCELLED when stopped, DEADLINE_EXCEEDED at `deadline` naming the nodes
  // that owe answers, OUT_OF_RANGE of the lowest (expert, token) over all
  // nodes, a node's error, DATA_LOSS for a reply that is no answer,
  // UNAVAILABLE for a lost node; all name node and layer.
  absl::Status Run(const std::function<bool()>& stopped, absl::Time deadline);

  // Asks the nodes to forget the step. A node that does not even take the
  // message is disconnected. REQUIRES: Run is not under way.
  void Forget(uint64_t epoch, uint64_t step);

  // The largest number of bytes that the plan sends to one node.
  int64_t largest_send_bytes() const;
  std::span<const int64_t> totals() const { return reduction_.totals(); }
  // Of this layer, per node.
  std::span<const NodeWork> work() const { return work_; }

 private:
  void DrainEvents();
  absl::Status ConnectNodes(absl::Duration timeout);
  void SendNext(int node);
  absl::Status Handle(const NodeEvent& event);
  absl::Status TakeReply(int node);
  absl::Status Lost(int node, const absl::Status& why) const;
  absl::Status Overdue() const;
  std::string At(int node) const;

  ExpertClients& clients_;
  DispatchPlan plan_;
  Reduction reduction_;
  const int latent_size_;
  std::span<const float> latent_;  // [T, L] of the layer
  std::vector<size_t> num_sent_;   // parts, per node
  std::vector<NodeWork> work_;
  v1::NodeRequest message_;  // scratch
};

}  // namespace deltafin
