// expert_node/expert_node.h
//
// One machine's experts as a service: storage, engine and server put together.
// Thread-safe after Start.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/model_spec.h"
#include "common/net/server_lifecycle.h"
#include "expert_node/expert_engine.h"
#include "expert_node/expert_service.h"
#include "expert_node/options.h"
#include "expert_node/storage/ledger_keeper.h"
#include "expert_node/storage/memory_governor.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/stored_experts.h"
#include "expert_node/storage/tiered_store.h"
#include "proto/expert.pb.h"

namespace deltafin {

class InstalledExperts;
class StorageService;

class ExpertNode {
 public:
  // Opens the model, checks its experts, hashes its files if no digest is
  // given, takes the memory. Blocks on disk. Errors: those of ModelSpec,
  // LocalStore, ManifestOfDirectory; INVALID_ARGUMENT when ram_bytes is below
  // one expert; RESOURCE_EXHAUSTED, with the numbers, when it is more than the
  // machine has.
  static absl::StatusOr<std::unique_ptr<ExpertNode>> Create(
      const ExpertNodeOptions& options);

  // The same over experts from elsewhere; model_dir is not used. REQUIRES:
  // manifest_digest and ram_bytes are set. `meter` is what `experts` tell of
  // their reads, where they do.
  static absl::StatusOr<std::unique_ptr<ExpertNode>> CreateOver(
      const ExpertNodeOptions& options, const ModelSpec& spec,
      std::unique_ptr<ExpertStore> experts,
      std::unique_ptr<ReadRateMeter> meter = nullptr);

  ~ExpertNode();  // Shutdown without drain

  // Takes a twentieth of a second to find out kernel_rate(). Before Start.
  // Errors: those of MeasureKernelRate.
  absl::Status MeasureKernel();

  // Begins to serve. Errors: those of ServerLifecycle::Start.
  absl::Status Start();

  // REQUIRES: started.
  std::shared_ptr<grpc::Channel> InProcessChannel();
  const std::string& address() const { return server_->address(); }
  int bound_port() const { return server_->bound_port(); }

  const v1::HandshakeReply& identity() const { return identity_; }
  const ModelSpec& spec() const { return spec_; }
  const RequestCounters& request_counters() const { return counters_; }
  // Bytes of experts a second through the kernel; 0: not measured.
  double kernel_rate() const { return kernel_rate_; }
  ReadRateReport read_rate() const;
  v1::NodeCounters counters() const { return service_->counters(); }
  // Memory for experts, as it is now.
  uint64_t tier_bytes() const { return store_->stats().capacity_bytes; }
  // Null where the experts do not come from an installed model.
  StoredExperts* stored_experts() { return upkeep_.stored_experts.get(); }

  // Refuses new work, waits up to `drain` for what runs, then stops that at its
  // next slice and ends streams and server. Blocks. Idempotent.
  void Shutdown(absl::Duration drain);

 private:
  // What Create adds: it looks after the tier and the drive below it.
  struct Upkeep {
    std::unique_ptr<MemoryGovernor> governor;
    std::unique_ptr<LedgerKeeper> ledger;
    std::unique_ptr<StoredExperts> stored_experts;  // null: none
    std::unique_ptr<StorageService> service;        // the same
  };

  ExpertNode(const ExpertNodeOptions& options, const ModelSpec& spec,
             std::unique_ptr<TieredStore> store,
             std::unique_ptr<ReadRateMeter> meter);
  // `installed` is below the tier, or null.
  void BeginUpkeep(InstalledExperts* installed);

  const ExpertNodeOptions options_;
  const ModelSpec spec_;
  const std::unique_ptr<ReadRateMeter> meter_;  // null: nothing is told
  const std::unique_ptr<TieredStore> store_;
  Upkeep upkeep_;
  double kernel_rate_ = 0;
  std::unique_ptr<ExpertEngine> engine_;
  v1::HandshakeReply identity_;
  RequestCounters counters_;
  RequestGate gate_;
  std::unique_ptr<ExpertService> service_;
  std::unique_ptr<ServerLifecycle> server_;  // null before Start
};

}  // namespace deltafin
