// coordinator/coordinator.h
//
// A coordinator put together: model, memory plan, expert nodes (or one in this
// process), spine, engine. Constructor stores, Init may fail, Start begins
// generating, Shutdown is idempotent. Init, Start and Shutdown belong to one
// thread; the accessors are thread-safe from Init on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/manifest.h"
#include "common/base/thread_pool.h"
#include "coordinator/engine/expert_dispatcher.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/tokenizer.h"
#include "coordinator/membership.h"
#include "coordinator/memory_plan.h"
#include "coordinator/node_counting.h"
#include "coordinator/options.h"
#include "coordinator/run_statistics.h"
#include "coordinator/spine_assembly.h"
#include "kernels/kernel_registry.h"
#include "spine_node/spine.h"

namespace deltafin {

// What is read of a model before its weights.
struct ModelIdentity {
  std::string dir;
  ModelSpec spec;
  Manifest manifest;
  std::string manifest_digest;  // its SHA-256, hex
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);
  ~Coordinator();  // Shutdown
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Reads config, tokenizer and identity, so that a prompt can be checked
  // before the long part. Init does it where it was not done. Errors: as
  // Init's.
  absl::Status ReadModel();

  // Reads the model, settles memory, shakes hands with the nodes, loads the
  // spine; in this order, so that what cannot work is refused before the long
  // part. With options.cluster nodes may come later and none is waited for.
  // Blocks. Errors: INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS for the
  // model; RESOURCE_EXHAUSTED with the memory table; UNAVAILABLE or
  // FAILED_PRECONDITION naming the node.
  absl::Status Init();
  // Begins the engine thread. REQUIRES: Init returned OK.
  absl::Status Start();
  // Ends live requests with CANCELLED and takes everything down in reverse
  // order.
  void Shutdown();

  const ModelIdentity& model() const { return model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  // That a sequence may reach. REQUIRES: ReadModel returned OK.
  int64_t context_tokens() const { return options_.context_tokens; }
  Scheduler& scheduler() { return *scheduler_; }
  const Scheduler& scheduler() const { return *scheduler_; }
  RunSettings settings() const;

  // REQUIRES: Init returned OK.
  Membership& membership() { return *membership_; }
  const NodeRegistry& registry() const { return membership_->registry(); }
  const ExpertDispatcher& dispatcher() const { return *dispatcher_; }
  DispatcherStats dispatcher_stats() const { return dispatcher_->stats(); }
  const std::string& metrics_listen() const { return options_.metrics_listen; }
  bool accepts_nodes() const { return options_.cluster; }
  const HubAccess& hub() const { return options_.hub; }

  // Asks every node in service for its counters (NodeCounting). Blocks.
  RunStatistics Statistics() const;

 private:
  absl::Status SettleMemory();
  void TellMemory() const;
  MembershipOptions DescribeMembership() const;
  absl::Status ConnectNodes();
  absl::Status LoadSpine();

  CoordinatorOptions options_;
  const KernelTarget* kernel_ = nullptr;
  ModelIdentity model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  SpinePlacement placement_;
  MemoryPlan plan_;
  std::unique_ptr<ThreadPool> threads_;  // of the spine
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<NodeCounting> counting_;
  std::unique_ptr<ExpertDispatcher> dispatcher_;
  std::unique_ptr<Spine> spine_;
  std::unique_ptr<ForwardPass> forward_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace deltafin
