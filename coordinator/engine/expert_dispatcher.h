// coordinator/engine/expert_dispatcher.h
//
// Runs the routed experts of a layer on a static list of expert nodes. The
// total is the same for any nodes, cut and arrival order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/cut_policy.h"
#include "coordinator/engine/exchange_thread.h"
#include "coordinator/engine/expert_client.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/layer_exchange.h"
#include "kernels/elementwise.h"
#include "kernels/expert_weights.h"

namespace deltafin {

struct DispatcherOptions {
  std::vector<NodeEndpoint> nodes;  // at least one
  HandshakeIdentity identity;
  ExpertShape shape;                          // of the model's routed experts
  const ElementwiseKernel* kernel = nullptr;  // adds replies; required
  // How long one layer may take on its slowest node. A cold layer of a large
  // prompt reads gigabytes from disk.
  absl::Duration layer_timeout = absl::Minutes(5);
  absl::Duration connect_timeout = absl::Seconds(10);
  // Tests: random cuts and owners from this seed instead of the even cut.
  std::optional<uint64_t> random_placement_seed;
  uint64_t epoch = 1;  // of the placement
};

struct NodeStats {
  std::string name;
  v1::HandshakeReply info;  // as of the last connection
  NodeWork work;            // since the dispatcher began
};

struct DispatcherStats {
  int64_t layers = 0;
  std::vector<NodeStats> nodes;
};

// Start, Wait, Abandon and TakeTimings belong to the engine thread; stats may
// be called from any thread.
class ExpertDispatcher : public RoutedExperts {
 public:
  // Connects all nodes. Blocks up to connect_timeout for each. Errors:
  // INVALID_ARGUMENT without nodes; those of ExpertClients::Connect.
  static absl::StatusOr<std::unique_ptr<ExpertDispatcher>> Connect(
      DispatcherOptions options);
  ~ExpertDispatcher() override;

  // A node that was lost is connected again first. Blocks only for that.
  absl::Status Start(uint64_t step, int layer,
                     const RoutedTokens& routed) override;
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& cancelled) override;
  void Abandon(uint64_t step) override;
  ExpertTimings TakeTimings() override;

  DispatcherStats stats() const;

 private:
  explicit ExpertDispatcher(DispatcherOptions options);
  absl::Status ConnectAll();
  absl::Status Exchange(const std::function<bool()>& cancelled);
  void AccountLayer(absl::Duration overlapped, absl::Duration waited);

  const DispatcherOptions options_;
  const std::unique_ptr<CutPolicy> policy_;
  ExpertClients clients_;
  LayerExchange exchange_;
  ExchangeThread thread_;
  absl::Time started_;  // the layer under way
  ExpertTimings timings_;
  mutable Mutex mutex_;
  DispatcherStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
