// coordinator/engine/expert_dispatcher.h
//
// Runs the routed experts of a layer on the nodes of a cluster, whoever they
// are at the moment. The total is the same for any nodes, cut and arrival
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/engine/exchange_thread.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/layer_exchange.h"
#include "coordinator/engine/layer_times.h"
#include "coordinator/engine/node_links.h"
#include "coordinator/engine/route_heat.h"
#include "kernels/elementwise.h"

namespace deltafin {

struct DispatcherOptions {
  HandshakeIdentity identity;
  int latent_size = 0;  // of the model's routed experts
  ModelExtent extent;   // for heat and layer_times; empty: they stay so
  const ElementwiseKernel* kernel = nullptr;  // adds replies; required
  // How long one layer may take on its slowest node. A cold layer of a large
  // prompt reads gigabytes from disk.
  absl::Duration layer_timeout = absl::Minutes(5);
  NodeLinksOptions links;
  LayerExchangeOptions exchange;
};

struct NodeStats {
  std::string name;
  v1::HandshakeReply info;  // as of the last connection
  NodeWork work;            // since the node has the slot
  int64_t streams_opened = 0;
};

struct DispatcherStats {
  int64_t layers = 0;
  std::vector<NodeStats> nodes;  // by slot
};

// Start, Wait, Abandon, TakeTimings and Tend belong to the engine thread; stats
// may be called from any thread.
class ExpertDispatcher : public RoutedExperts {
 public:
  // Connects nothing yet. `view` must outlive this.
  ExpertDispatcher(const DispatcherOptions& options, ClusterView& view);
  ~ExpertDispatcher() override;

  // Connects all members that can work; blocks up to the connect timeout.
  // Without it they are connected as steps need them. Before the first Start.
  // Errors: of the first one that is not connected.
  absl::Status ConnectAll();

  // The members are those of the placement when the step began. Never blocks.
  absl::Status Start(uint64_t step, int layer,
                     const RoutedTokens& routed) override;
  bool WantsHints() const override;
  void Expect(int layer, std::span<const int32_t> experts) override;
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& cancelled) override;
  void Abandon(uint64_t step) override;
  ExpertTimings TakeTimings() override;
  void Tend() override;
  const ExpertTrace& trace() const override { return trace_; }

  // These three by any thread.
  DispatcherStats stats() const;
  const RouteHeat& heat() const { return heat_; }
  const LayerTimes& layer_times() const { return layer_times_; }

 private:
  void AccountLayer(absl::Duration overlapped, absl::Duration waited);
  void TraceLayer(absl::Duration overlapped, absl::Duration waited);
  NodeStats& StatsOf(int slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DispatcherOptions options_;
  NodeLinks links_;
  LayerExchange exchange_;
  ExchangeThread thread_;
  LayerId layer_;       // under way
  absl::Time started_;  // it
  ExpertTimings timings_;
  ExpertTrace trace_;  // of the step
  RouteHeat heat_;
  LayerTimes layer_times_;
  mutable Mutex mutex_;
  DispatcherStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
