// expert_node/storage/ledger_keeper.h
//
// Keeps a node's ledger: takes up what the last run learned, and writes down
// what this one learns. Without a ledger it does nothing. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/periodic_thread.h"
#include "expert_node/storage/expert_index.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

struct LedgerOptions {
  // Where FOLDER/ledger is. Empty: none is kept.
  std::string folder;
  std::string manifest_digest;
  // Between two writings. What is lost when the program is killed: the heat of
  // so long.
  absl::Duration interval = absl::Minutes(1);
  // What to write down of the rates; may be empty. Must outlive the keeper.
  std::function<LedgerRates()> rates;
};

class LedgerKeeper {
 public:
  // Warms the tier up and sets the quota of `records`, which is null where the
  // experts are not kept in records. A ledger that cannot be opened is logged.
  // Both must outlive the object. Before the first Acquire of `tier`. Blocks on
  // the drive.
  LedgerKeeper(const LedgerOptions& options, TieredStore& tier,
               RecordStore* records);
  // Writes for the last time.
  ~LedgerKeeper();

  // Writes what is new. Blocks on the drive; what goes wrong is logged once.
  void Write();
  // As the last run left them.
  LedgerRates found_rates() const;
  // nullopt: none. Errors: those of the file system.
  absl::Status KeepQuota(std::optional<uint64_t> quota_bytes);

 private:
  absl::Status WriteNew();

  const std::function<LedgerRates()> rates_;
  TieredStore& tier_;
  RecordStore* const records_;
  std::unique_ptr<ExpertIndex> index_;  // null: there is none
  Mutex mutex_;
  bool writes_well_ ABSL_GUARDED_BY(mutex_) = true;
  std::unique_ptr<PeriodicThread> thread_;
};

}  // namespace deltafin
