// expert_node/storage/tiered_store.h
//
// RAM over a slower store: leases slices to the engine, reads what is missing
// with its own threads, one read per slice however many wait for it.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expected_slices.h"
#include "expert_node/storage/expert_cache.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

struct TieredStoreOptions {
  // Memory for slices. At least one whole expert, else refused.
  size_t capacity_bytes = 0;
  // Threads that read, check and repack: more than the reads that a drive needs
  // at once (RecordStoreOptions::reads_at_once), so that it reads while they
  // check.
  int num_readers = 6;
  // Requests after which a use of an expert counts half when room is made.
  double heat_half_life = 1000;
};

struct TieredStoreStats {
  uint64_t bytes_read = 0;
  uint64_t hits = 0;    // slices found in RAM, or on their way into it
  uint64_t misses = 0;  // slices that had to be read
  uint64_t evictions = 0;
  uint64_t resident_bytes = 0;
  uint64_t capacity_bytes = 0;  // as it is now
  uint64_t warmed = 0;          // slices read because an earlier run used them
  ExpectedSlicesStats expected;
};

class TieredStore;

// Somebody who holds on to a tier's memory by its addresses, as the driver of a
// card that reads from it.
class TierMemoryHolder {
 public:
  virtual ~TierMemoryHolder() = default;
  // `tail`, the end of the tier's memory, holds nothing any more and is to go
  // back to the system. Lets go of it; returns what may go, an end of `tail`.
  // It is held on to again only when slices of it are used.
  virtual std::span<uint8_t> LetGo(std::span<uint8_t> tail) = 0;
};

// The slices of one layer request. Not copied, not moved; used by the threads
// of one computation. Dropping it forgets reads that have not begun.
//
// A lease may want more than fits into RAM: slices come in waves as earlier
// ones are released. So that this always moves on, units are waited for in
// order() and released when used.
class SliceLease {
 public:
  ~SliceLease();
  SliceLease(const SliceLease&) = delete;
  SliceLease& operator=(const SliceLease&) = delete;

  // Indices of the wanted slices in the order in which they become available:
  // what is in RAM, then the rest in the order in which it is read.
  std::span<const int> order() const { return order_; }

  // The bytes of wanted slice `index`, in tile order, valid until Release.
  // Blocks while they are being read. Thread-safe. Errors: those of
  // ExpertStore::Read.
  absl::StatusOr<const uint8_t*> Wait(int index);
  // Wait would not block. Thread-safe.
  bool IsReady(int index) const;
  // Nobody wants what was not begun any more: Wait for it ends with CANCELLED,
  // also where it blocks already. Thread-safe.
  void Abandon();
  // Gives the slice back. REQUIRES: its bytes are used no more.
  void Release(int index);

  // Every slice was in RAM from the start: Wait never blocks.
  bool all_ready() const { return all_ready_; }
  int hits() const { return hits_; }
  int misses() const { return static_cast<int>(order_.size()) - hits_; }
  // Of the hits, those that Expect brought.
  int expected_hits() const { return expected_hits_; }
  // So far.
  uint64_t bytes_read() const;

 private:
  friend class TieredStore;
  struct Shared;
  explicit SliceLease(TieredStore& store) : store_(store) {}

  TieredStore& store_;
  // Outlives the lease while a reader works for it.
  std::shared_ptr<Shared> shared_;
  std::vector<int> order_;
  int hits_ = 0;
  int expected_hits_ = 0;
  bool all_ready_ = false;
};

class TieredStore {
 public:
  // Errors: INVALID_ARGUMENT with the numbers when the capacity is below one
  // expert; RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<TieredStore>> Create(
      std::unique_ptr<ExpertStore> lower, const TieredStoreOptions& options);
  // REQUIRES: no lease lives. Joins the readers.
  ~TieredStore();

  const ExpertShape& shape() const { return lower_->shape(); }

  // Pins what is in RAM and queues reads of the rest; never waits. Neighbours
  // in `wanted` that are consecutive slices of one expert are read together. A
  // slice may be wanted more than once.
  std::unique_ptr<SliceLease> Acquire(std::span<const SliceKey> wanted) {
    return Acquire(wanted, wanted);
  }
  // `used`: all slices of the request, where a faster tier has the others; they
  // count for heat.
  std::unique_ptr<SliceLease> Acquire(std::span<const SliceKey> wanted,
                                      std::span<const SliceKey> used);

  // Slices of one layer that will probably be wanted soon. Those that are near
  // are read while the readers have nothing else to do, in this order, and stay
  // in memory until Acquire wants slices of the layer; what was not begun by
  // then is forgotten, and all of it gives way to what is wanted for certain.
  // Replaces what was expected of the layer before. Never waits.
  void Expect(int layer, std::span<const ExpectedRun> runs);

  // Goes on with the heat of an earlier run. What it used that is near is then
  // read while the readers have nothing else to do, the hottest first, as long
  // as there is room that nobody else took. Before the first Acquire.
  void WarmUp(const HeatPage& page);
  // What was used since the last call: see ExpertHeat.
  HeatPage TakeUses();
  // 0: never used. Comparable with that of others at the same time.
  double HeatOf(ExpertKey expert) const;

  // Uses `bytes` of its memory from now on, at least one expert's, at most what
  // it was made with; the rest goes back to the system. What is leased stays
  // until it is released; the coldest go first. Blocks while slices are moved.
  // REQUIRES: one thread calls it.
  void SetCapacity(uint64_t bytes);
  uint64_t max_capacity_bytes() const;

  // Of all slots. What is in it and when it is given back is the store's
  // business: addresses of slices that are leased are good to use.
  std::span<uint8_t> memory() { return memory_; }
  // Told from now on, by the thread that calls SetCapacity; null: nobody.
  // Blocks while the holder before is told.
  void SetMemoryHolder(TierMemoryHolder* holder);

  TieredStoreStats stats() const;

 private:
  friend class SliceLease;
  // Of its slots, what is only expected may take one in so many.
  static constexpr size_t kExpectedPart = 4;
  // Readers that read what nobody waits for: what is then wanted for certain
  // waits for no more than their pieces.
  static constexpr int kAheadReaders = 2;
  using Entry = ExpertCache::Entry;
  // Consecutive missing slices of one expert, wanted by one lease.
  struct Fetch {
    std::shared_ptr<SliceLease::Shared> lease;
    int first_unit = 0;
    int num_units = 0;
  };

  TieredStore(std::unique_ptr<ExpertStore> lower,
              std::unique_ptr<ExpertCache> cache);
  void QueueMisses(SliceLease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReaderMain();
  bool MayFetch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !fetches_.empty() && !taking_slots_;
  }
  bool MayReadAhead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return expected_.any_to_read() && num_ahead_ < kAheadReaders &&
           fetches_.empty() && !taking_slots_ && num_reading_ == 0;
  }
  bool MayWarm() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !to_warm_.empty() && num_ahead_ < kAheadReaders &&
           fetches_.empty() && !taking_slots_ && num_reading_ == 0;
  }
  void ReadNextFetch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNextExpected() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNextWarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillAhead(const std::vector<Entry*>& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes slots for a fetch, unit by unit; returns the entries to fill, each
  // with a pin of the reader.
  std::vector<Entry*> TakeSlots(const Fetch& fetch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds to *bytes_read.
  void Fill(const std::vector<Entry*>& entries,
            std::atomic<uint64_t>* bytes_read);
  void FillRun(std::span<Entry* const> run, std::atomic<uint64_t>* bytes_read);
  void Settle(Entry* entry, const absl::Status& status);
  void Unpin(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<ExpertStore> lower_;
  mutable Mutex mutex_;
  const std::unique_ptr<ExpertCache> cache_ ABSL_PT_GUARDED_BY(mutex_);
  const std::span<uint8_t> memory_;  // of the cache
  ExpectedSlices expected_ ABSL_GUARDED_BY(mutex_);
  std::deque<ExpectedRun> to_warm_ ABSL_GUARDED_BY(mutex_);
  std::deque<Fetch> fetches_ ABSL_GUARDED_BY(mutex_);
  int num_reading_ ABSL_GUARDED_BY(mutex_) = 0;  // readers of fetches
  int num_ahead_ ABSL_GUARDED_BY(mutex_) = 0;    // and of all else
  // One reader at a time takes slots, in the order of the queue: otherwise two
  // could hold half of what each needs.
  bool taking_slots_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  TieredStoreStats stats_ ABSL_GUARDED_BY(mutex_);
  // Or the turn to take slots is free, or there is time to read ahead.
  CondVar fetch_queued_;
  CondVar slot_available_;  // or a lease was dropped
  CondVar slice_settled_;   // some entry became ready or failed
  std::vector<std::thread> readers_;
  Mutex holder_mutex_;
  TierMemoryHolder* holder_ ABSL_GUARDED_BY(holder_mutex_) = nullptr;
};

}  // namespace deltafin
