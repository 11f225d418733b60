// coordinator/engine/layer_exchange.h
//
// One layer's messages to all nodes and back: sends the parts of a plan as the
// streams take them, adds the replies, and has others do what a node does not
// do. Thread-compatible: Begin and Run may be called by different threads, one
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/engine/cost_model.h"
#include "coordinator/engine/dispatch_plan.h"
#include "coordinator/engine/expected_experts.h"
#include "coordinator/engine/hedge_policy.h"
#include "coordinator/engine/layer_assignment.h"
#include "coordinator/engine/node_links.h"
#include "coordinator/engine/node_work.h"
#include "coordinator/engine/reduction.h"
#include "coordinator/engine/stall_watch.h"

namespace deltafin {

struct LayerExchangeOptions {
  // A node that is silent for this long, and for ten times as long as its part
  // should take, has its work given to others.
  absl::Duration stall_after = absl::Seconds(2);
  // How long work waits for a node that can do it to come back.
  absl::Duration owner_patience = absl::Seconds(10);
  // Nodes are told what the next layer will probably want, where it pays.
  bool read_ahead = true;
  // Slices that may be asked of a second node because the first is late, of
  // each that is asked for. 0: none.
  double hedge_budget = 0;
};

// The node does not have what it was asked to compute, and cannot get it.
bool LacksSlices(const absl::Status& refusal);

class LayerExchange {
 public:
  // All must outlive this. latent_size: L.
  LayerExchange(const LayerExchangeOptions& options, NodeLinks& links,
                ClusterView& view, const ElementwiseKernel& kernel,
                int latent_size);

  // Plans the layer and sends the first message to each node. `routed` is used
  // until Run returns.
  void Begin(const LayerId& id, const RoutedTokens& routed);

  // Some node reads from its drive and reads ahead with success, as far as is
  // known. Expect tells such nodes what they will probably be asked for at
  // `layer`, each its home runs; a node whose message is not out yet is left
  // out. REQUIRES: Run is not under way.
  bool WantsHints() const;
  void Expect(int layer, std::span<const int32_t> experts);

  // Moves messages until every part is answered, by its node or by others: who
  // hold what it needs or, if nobody does any more, who can fetch it.
  // `stopped` is polled. Errors: CANCELLED when stopped, DEADLINE_EXCEEDED at
  // `deadline` naming the nodes that owe answers, OUT_OF_RANGE of the lowest
  // (expert, token) over all nodes; INVALID_ARGUMENT when a node finds our
  // request wrong; and what befell the last node that could do some work, when
  // none is left or none came back in time. All name node and layer.
  absl::Status Run(const std::function<bool()>& stopped, absl::Time deadline);

  // Asks the nodes to forget the step. A node that does not even take the
  // message is disconnected. REQUIRES: Run is not under way.
  void Forget(uint64_t epoch, uint64_t step);

  // Learns of streams that broke or were opened. Between steps.
  void Tend();

  // The largest number of bytes that the plan sends to one node.
  int64_t largest_send_bytes() const;
  std::span<const int64_t> totals() const { return reduction_.totals(); }
  // Of this layer, per node.
  std::span<const NodeWork> work() const { return work_; }

 private:
  void PlanLayer(absl::Time now);
  absl::Status AwaitAnybody(absl::Time now);
  void AskRoundTrips(absl::Time now);
  void UpdateFitness(absl::Time now);
  void SendNext(int node);
  absl::Status Handle(const NodeEvent& event);
  absl::Status TakeReply(int node);
  bool TakesHints(int node) const;
  void Learn(int node, const v1::LayerReply& reply, absl::Time heard_before,
             absl::Time now);

  // Gives away the work of nodes that are gone or stalled.
  absl::Status Mend(absl::Time now);
  absl::Status MendNode(int node, absl::Time now);
  bool IsLost(PartRef ref) const;
  absl::Status GiveAway(PartRef ref, absl::Time now);
  // The first assignment of the part that nobody can take now, or -1 and their
  // runs in other_runs_.
  int FindOthers(const PlannedPart& part);
  bool MayComeBack(PartRef ref, int assignment) const;
  absl::Status Stranded(PartRef ref, int assignment) const;
  // Asks others for what is late. When something will be, if nothing happens.
  absl::Time Hedge(absl::Time now);
  absl::Time HedgeNode(int node, absl::Time now);
  int IdleHolder(PartRef ref) const;
  void AskToo(PartRef ref, int other, absl::Time now);
  bool IsStillAwaited(PartRef ref) const;
  void Grow(int num_nodes);
  absl::Status Overdue() const;
  std::string At(int node) const;

  const LayerExchangeOptions options_;
  NodeLinks& links_;
  ClusterView& view_;
  DispatchPlan plan_;
  Reduction reduction_;
  LayerAssignment assignment_;
  CostModel costs_;
  StallWatch watch_;
  HedgePolicy hedges_;
  const int latent_size_;
  LayerId id_;           // of the layer
  RoutedTokens routed_;  // of it
  absl::Time begun_;
  bool nobody_ = false;           // there was no member to plan for
  std::vector<size_t> num_sent_;  // parts, per node
  std::vector<NodeFitness> fitness_;
  std::vector<absl::Duration> round_trips_;  // of nodes with stale costs
  ExpectedExperts expected_;
  std::vector<NodeWork> work_;
  std::vector<int64_t> num_late_;  // replies between steps, per node
  std::vector<std::vector<NodeRun>> other_runs_;  // scratch of FindOthers
  absl::Time mended_;
  bool mend_now_ = false;    // a node is gone or refused
  v1::NodeRequest message_;  // scratch
};

}  // namespace deltafin
