// expert_node/storage/share_store.h
//
// The experts of a node that holds only its share of a model: what lies on its
// drive, the rest from the other machines of its cluster or, where it has one,
// its own source, kept as it comes. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/fetching_store.h"
#include "expert_node/storage/peer_store.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/staged_source.h"

namespace deltafin {

struct ShareStoreOptions {
  std::string folder;  // of the records
  RecordStoreOptions records;
  FetchingStoreOptions fetching;
  // Memory for slices of fetched experts that other nodes are to have.
  uint64_t staging_bytes = uint64_t{256} << 20;
};

class ShareStore : public ExpertStore {
 public:
  // `peers` must outlive the store. `source`: whole released experts; null:
  // none. Errors: those of RecordStore::Open.
  static absl::StatusOr<std::unique_ptr<ShareStore>> Open(
      const RecordModel& model, const ShareStoreOptions& options,
      SlicePeers& peers, std::unique_ptr<ExpertStore> source);
  ~ShareStore() override;

  const ExpertShape& shape() const override { return records_->shape(); }
  bool IsNear(ExpertKey key, SliceRun run) const override {
    return records_->Holds(key, run);
  }

  // Drive and staged slices.
  ExpertStore& held() override { return *held_; }
  uint64_t HeldMask(ExpertKey key) const override;
  uint64_t held_version() const override;
  int slices_per_read() const override { return records_->slices_per_read(); }

  // What the drive lacks comes from peers first, then from the source, and is
  // kept where there is room. Errors: of the last of them.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    return fetching_->Read(key, run, out, ready);
  }

  // Brings a run to the drive: from `owners` in order, or from the source where
  // none of them gives it. Returns the bytes that came: 0 when it is held
  // already. Owners may let it wait (SlicePeers::ReadSlices, with this budget);
  // readers of the expert do not wait for it then. Blocks. Errors:
  // INVALID_ARGUMENT for a run outside the model; RESOURCE_EXHAUSTED when there
  // is no room; those of Read.
  absl::StatusOr<uint64_t> Copy(ExpertKey key, SliceRun run,
                                std::span<const std::string> owners,
                                uint64_t copy_budget = 0);

  RecordStore& records() { return *records_; }
  const RecordStore& records() const { return *records_; }
  FetchingStore& fetching() { return *fetching_; }
  bool has_source() const { return source_ != nullptr; }
  FetchingStoreStats fetching_stats() const { return fetching_->stats(); }

 private:
  class Held;
  class PeersThenSource;

  ShareStore(std::unique_ptr<RecordStore> records,
             const ShareStoreOptions& options, SlicePeers& peers,
             std::unique_ptr<ExpertStore> source);

  const std::unique_ptr<RecordStore> records_;
  const std::unique_ptr<StagedSource> source_;  // null: none
  const std::unique_ptr<ExpertStore> held_;
  PeerStore peers_;
  const std::unique_ptr<FetchingStore> fetching_;  // over all of these
};

}  // namespace deltafin
