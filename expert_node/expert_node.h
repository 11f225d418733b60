// expert_node/expert_node.h
//
// One machine's experts as a service: storage, engine and server put together.
// Thread-safe after Start.
#pragma once

#include <functional>
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
#include "expert_node/slice_sender.h"
#include "expert_node/storage/ledger_keeper.h"
#include "expert_node/storage/memory_governor.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/share_store.h"
#include "expert_node/storage/stored_experts.h"
#include "expert_node/storage/tiered_store.h"
#include "proto/expert.pb.h"

namespace deltafin {

class InstalledExperts;
class StorageService;

// Experts on the drive that a node keeps and changes. Null: it reads shards
// that are there for good.
struct KeptExperts {
  RecordStore* records = nullptr;
  FetchingStore* fetching = nullptr;    // over the records
  std::function<double()> source_rate;  // where what is missing comes from
};

class ExpertNode {
 public:
  // Opens the model, checks its experts, hashes its files if no digest is
  // given, takes the memory. Blocks on disk. Errors: those of ModelSpec,
  // LocalStore, ManifestOfDirectory, ShareStore; INVALID_ARGUMENT when
  // ram_bytes is below one expert; RESOURCE_EXHAUSTED, with the numbers, when
  // it is more than the machine has.
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
  // What is on this machine.
  ExpertStore& experts() { return experts_; }
  const ExpertStore& experts() const { return experts_; }
  // Where the node holds its share alone; null: the whole model is at hand.
  ShareStore* share() const { return share_; }
  // Gives them to others.
  SliceSender& slices() { return slices_; }
  const SliceSender& slices() const { return slices_; }
  // Blocks until no layer request is inside. False when the deadline passed
  // first.
  bool WaitUntilIdle(absl::Time deadline) {
    return gate_.WaitUntilEmpty(deadline);
  }
  // All zero where it computes on no card.
  CardSetStats cards() const;
  // Memory for experts, as it is now.
  uint64_t tier_bytes() const { return store_->stats().capacity_bytes; }
  // Null where the experts come from released shards.
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
             ExpertStore& experts, std::unique_ptr<TieredStore> store,
             std::unique_ptr<ReadRateMeter> meter);
  // `kept` is below the tier.
  void BeginUpkeep(const KeptExperts& kept);
  void TellStreaming(InstalledExperts& installed) const;

  const ExpertNodeOptions options_;
  const ModelSpec spec_;
  const std::unique_ptr<ReadRateMeter> meter_;  // null: nothing is told
  ExpertStore& experts_;                        // of store_
  const std::unique_ptr<TieredStore> store_;
  SliceSender slices_;
  ShareStore* share_ = nullptr;  // of store_
  Upkeep upkeep_;
  double kernel_rate_ = 0;
  const std::unique_ptr<CardSet> cards_;  // null: none were asked for
  std::unique_ptr<ExpertEngine> engine_;
  v1::HandshakeReply identity_;
  RequestCounters counters_;
  RequestGate gate_;
  std::unique_ptr<ExpertService> service_;
  std::unique_ptr<ServerLifecycle> server_;  // null before Start
};

}  // namespace deltafin
