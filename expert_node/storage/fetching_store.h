// expert_node/storage/fetching_store.h
//
// The drive over a slower source: serves what the record store holds, fetches
// the rest and keeps it. A copy that cannot be used is fetched again without
// the reader noticing. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

struct FetchingStoreOptions {
  // Memory for slices that are fetched and not yet on the drive; at least one
  // run is taken. Readers wait for room in it: nothing is fetched twice.
  uint64_t queue_bytes = uint64_t{256} << 20;
  // Told of reads of the lower store; must outlive this. Null: nobody is.
  ReadRateMeter* meter = nullptr;
};

struct FetchingStoreStats {
  uint64_t fetches = 0;  // reads of the lower store
  uint64_t bytes_fetched = 0;
  uint64_t slices_refetched = 0;  // whose copy here could not be used
  uint64_t runs_installed = 0;
  uint64_t runs_not_installed = 0;  // no room, or an error that was logged
};

class FetchingStore : public ExpertStore {
 public:
  // `records` must outlive the object. REQUIRES: both have one shape.
  FetchingStore(RecordStore& records, std::unique_ptr<ExpertStore> lower,
                const FetchingStoreOptions& options);
  // REQUIRES: no Read is in progress. Installs what is queued, then ends.
  ~FetchingStore() override;

  const ExpertShape& shape() const override { return records_.shape(); }

  // Held slices come from the drive, runs of missing ones from the lower store.
  // An expert is fetched by one reader at a time; others of it wait until it is
  // installed and read it from the drive. What does not fit there is served all
  // the same. Errors: those of the lower store.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

  using ReadMissing = absl::FunctionRef<absl::StatusOr<uint64_t>(
      SliceRun missing, std::span<uint8_t* const> out)>;

  // Brings what is missing of `run` to the drive by `read`, which is called for
  // each missing part as ExpertStore::Read is, and keeps it before it returns.
  // `read` may take long: readers of the expert do not wait for it, and may
  // fetch the same. What it cannot read comes from `read_in_turn`, where there
  // is one, which nobody fetches at the same time. Returns the bytes of slices
  // that came. Blocks. Errors: those of the last of them and of
  // RecordStore::Install.
  absl::StatusOr<uint64_t> Fill(
      ExpertKey key, SliceRun run, ReadMissing read,
      std::optional<ReadMissing> read_in_turn = std::nullopt);

  // Blocks until everything fetched so far is on the drive or given up.
  void WaitForInstalls();

  FetchingStoreStats stats() const;

 private:
  // A fetched run on its way to the drive.
  struct Install {
    ExpertKey key;
    SliceRun run;
    std::vector<uint8_t> bytes;
  };
  class Request;

  absl::Status ReadHeld(Request& request, SliceRun run);
  absl::Status Fetch(Request& request, SliceRun run);
  // What came of an attempt to fill.
  struct Filled {
    absl::Status read;     // the first that failed ends it
    absl::Status install;  // the same
    uint64_t bytes = 0;
  };
  void FillMissing(ExpertKey key, SliceRun run, ReadMissing read,
                   Filled* filled);
  void FillPart(ExpertKey key, SliceRun missing, ReadMissing read,
                Filled* filled);
  absl::StatusOr<uint64_t> ReadLower(Request& request, SliceRun run);
  void BeginFetch(ExpertKey key);
  void EndFetch(ExpertKey key);
  void BeginFill(ExpertKey key);
  void EndFill(ExpertKey key);
  void Queue(ExpertKey key, SliceRun run, std::span<uint8_t* const> slices);
  void InstallerMain();
  absl::Status InstallOnDrive(const Install& install);
  // Logs a change between installing and not, once each.
  void Count(const absl::Status& installed);
  size_t BytesOf(SliceRun run) const;

  RecordStore& records_;
  const std::unique_ptr<ExpertStore> lower_;
  const FetchingStoreOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  // Being fetched or installed.
  std::set<ExpertKey> busy_ ABSL_GUARDED_BY(mutex_);
  std::set<ExpertKey> filling_ ABSL_GUARDED_BY(mutex_);
  std::deque<Install> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool installing_ok_ ABSL_GUARDED_BY(mutex_) = true;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  FetchingStoreStats stats_ ABSL_GUARDED_BY(mutex_);
  std::thread installer_;
};

}  // namespace deltafin
