// expert_node/storage/expert_index.h
//
// Ledger in front of a record store, kept by RocksDB: what each expert holds,
// who it is, how often it was read, and the quota. Nothing depends on it for an
// answer: presence and identity are copies of the index files, and a ledger
// that is gone or damaged begins anew, without heat. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

class ExpertIndex {
 public:
  struct Row {
    std::vector<SliceRun> held;
    std::string identity;  // SHA-256 hex, or empty
    uint64_t heat = 0;     // reads, over all runs of the program
    friend bool operator==(const Row&, const Row&) = default;
  };

  // Opens or makes FOLDER/ledger. A damaged one is logged, deleted and made
  // anew. Errors: UNAVAILABLE when somebody has it open; those of the file
  // system, for example when it is read-only: go on without a ledger then.
  // REQUIRES: the caller has the folder's lock, as an open RecordStore does.
  static absl::StatusOr<std::unique_ptr<ExpertIndex>> Open(
      const std::string& folder);
  ~ExpertIndex();

  // nullopt for an expert that is not in the ledger. Blocks on the drive.
  // Errors here and below: DATA_LOSS for a damaged ledger; those of the file
  // system.
  absl::StatusOr<std::optional<Row>> Find(ExpertKey key) const;

  // Makes presence and identity those of `records`; heat and quota stay.
  absl::Status Rebuild(const RecordStore& records);
  // The same, and adds the reads that the store counted since the last call.
  // REQUIRES: always one and the same store.
  absl::Status Update(const RecordStore& records);

  // The quota that was set last; nullopt: none was.
  absl::StatusOr<std::optional<uint64_t>> Quota() const;
  absl::Status SetQuota(uint64_t quota_bytes);

 private:
  struct Database;
  explicit ExpertIndex(std::unique_ptr<Database> database);
  absl::Status Write(const RecordStore& records, bool add_reads);

  const std::unique_ptr<Database> database_;
  Mutex mutex_;  // one Write at a time
  // Reads of the store that are in the ledger already, by layer and expert.
  std::vector<uint64_t> added_reads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
