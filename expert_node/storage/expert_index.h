// expert_node/storage/expert_index.h
//
// The ledger of a data folder, kept by RocksDB: how hot each expert was, the
// quota, measured rates, and copies of what the index files say of each expert.
// Nothing depends on it for an answer: a ledger that is gone or damaged begins
// anew, without heat and quota. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_heat.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

// Bytes a second, as measured while experts were read; 0: never.
struct LedgerRates {
  double drive = 0;
  double source = 0;  // of experts that the drive lacks
  friend bool operator==(const LedgerRates&, const LedgerRates&) = default;
};

// What a ledger said when it was read.
struct LedgerContents {
  struct Held {
    uint64_t slices = 0;   // bit s: slice s is on the drive
    std::string identity;  // SHA-256 hex, or empty
    friend bool operator==(const Held&, const Held&) = default;
  };
  std::string manifest_digest;
  std::optional<uint64_t> quota_bytes;
  LedgerRates rates;
  HeatPage heat;
  std::map<ExpertKey, Held> held;  // only experts with any slice
};

class ExpertIndex {
 public:
  // Opens or makes FOLDER/ledger and reads all of it. A damaged one is logged,
  // deleted and made anew; one of another model loses all but its quota.
  // Errors: UNAVAILABLE when somebody has it open; those of the file system,
  // for example when it is read-only: go on without a ledger then. REQUIRES:
  // the caller has a lock on the folder.
  static absl::StatusOr<std::unique_ptr<ExpertIndex>> Open(
      const std::string& folder, const std::string& manifest_digest);
  // Deletes the ledger and makes it again from `records` (null: there are
  // none), with the heat and the quota that it had where they can be read.
  static absl::StatusOr<std::unique_ptr<ExpertIndex>> Rebuild(
      const std::string& folder, const std::string& manifest_digest,
      const RecordStore* records);
  ~ExpertIndex();

  // Reads the ledger of a folder that another program may have, changing
  // nothing. Errors: NOT_FOUND without one; DATA_LOSS for a damaged one; those
  // of the file system.
  static absl::StatusOr<LedgerContents> Read(const std::string& folder);

  // As Open found it.
  const LedgerContents& found() const { return found_; }

  // Errors here and below: those of the file system. Block on the drive.
  absl::Status SetQuota(std::optional<uint64_t> quota_bytes);
  // A rate that is 0 stays as it was.
  absl::Status SetRates(const LedgerRates& rates);
  // Adds a page to what is kept: all of it or nothing.
  absl::Status AddHeat(const HeatPage& page);
  // Makes the copies those of `records`; writes what differs.
  absl::Status CopyHeld(const RecordStore& records);

 private:
  struct Database;
  ExpertIndex(std::unique_ptr<Database> database, LedgerContents found);

  const std::unique_ptr<Database> database_;
  const LedgerContents found_;
  Mutex mutex_;
  std::map<ExpertKey, LedgerContents::Held> written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
