// expert_node/storage/stored_experts.h
//
// Changes what a node keeps on its drive while the node runs: quota, removing,
// fetching. Thread-safe; calls may run beside any reads.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "expert_node/storage/fetching_store.h"
#include "expert_node/storage/ledger_keeper.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

class StoredExperts {
 public:
  // What to do with experts for which a lower quota has no room.
  enum class Surplus { kKeep, kRemoveColdest };

  // All must outlive the object. `source` is over `records`; `tier` knows which
  // experts are cold; `ledger` keeps the quota.
  StoredExperts(RecordStore& records, FetchingStore& source, TieredStore& tier,
                LedgerKeeper& ledger)
      : records_(records), source_(source), tier_(tier), ledger_(ledger) {}

  const RecordStore& records() const { return records_; }

  // nullopt: none. In force at once and after restarts. Returns how many
  // experts were removed. Errors: UNAVAILABLE where there is no ledger that
  // could keep it, and those of the file system: nothing is changed then, or
  // not everything that should go is gone.
  absl::StatusOr<int> SetQuota(std::optional<uint64_t> quota_bytes,
                               Surplus surplus);

  // Takes an expert off the drive; its slices in memory stay, they are right.
  // Returns how many were removed: 0 or 1. Errors: INVALID_ARGUMENT for a name
  // outside the model; those of RecordStore::Remove.
  absl::StatusOr<int> Remove(ExpertKey key);

  // Brings what is missing of an expert onto the drive. Blocks on the source.
  // Errors: those of the source; RESOURCE_EXHAUSTED where there was no room.
  absl::Status Fetch(ExpertKey key);

 private:
  absl::StatusOr<int> RemoveColdest(uint64_t until_bytes);

  RecordStore& records_;
  FetchingStore& source_;
  TieredStore& tier_;
  LedgerKeeper& ledger_;
};

}  // namespace deltafin
