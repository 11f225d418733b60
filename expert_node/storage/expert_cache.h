// expert_node/storage/expert_cache.h
//
// Memory tier of the expert store: slices ready for the kernel, bounded by
// bytes. First out is the slice whose expert was used least of late, of those
// alike the one that rests longest. Bookkeeping only, no I/O, no waiting.
// Thread-compatible: TieredStore guards it; entry fields marked atomic may be
// read without that guard by whoever holds a pin.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "expert_node/storage/expert_heat.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

// All slices have one slot size, so memory is one allocation cut into slots:
// exactly bounded, huge pages, nothing to fragment. Every slot starts on a
// cache line.
class ExpertCache {
 public:
  class Entry;

 private:
  // Heat when the last pin went, then the order of that.
  using Rank = std::pair<double, uint64_t>;
  using Resting = std::map<Rank, Entry*>;

 public:
  enum class State : uint8_t {
    kFilling,  // its bytes are being read
    kReady,    // its bytes may be used by whoever holds a pin
    kFailed,   // they could not be read; the key is already forgotten
  };

  class Entry {
   public:
    const SliceKey& key() const { return key_; }
    uint8_t* bytes() const { return bytes_; }
    // kReady is published with release order.
    State state() const { return state_.load(std::memory_order_acquire); }
    // Ascends in the order in which entries were inserted.
    uint64_t fill_number() const { return fill_number_; }
    // Why it failed. REQUIRES: state() == kFailed.
    const absl::Status& error() const { return error_; }

   private:
    friend class ExpertCache;
    SliceKey key_;
    uint8_t* bytes_ = nullptr;
    std::atomic<State> state_{State::kFilling};
    int pins_ = 0;
    bool rests_ = false;
    uint64_t fill_number_ = 0;
    absl::Status error_;
    Resting::iterator place_;    // while it rests
    Resting::node_type parked_;  // otherwise, from its first rest on
  };

  // slice_bytes: of the largest slice; half_life: of a use, in requests.
  // Errors: RESOURCE_EXHAUSTED when the memory cannot be had.
  static absl::StatusOr<std::unique_ptr<ExpertCache>> Create(
      size_t slice_bytes, size_t capacity_bytes, double half_life);

  // Over the memory of somebody else, as a card's: the address of each slot. It
  // is never read or written here. REQUIRES: Resize is not called.
  static std::unique_ptr<ExpertCache> Over(const std::vector<uint8_t*>& slots,
                                           size_t slot_bytes, double half_life);

  static size_t SlotBytes(size_t slice_bytes) {
    return (slice_bytes + 63) / 64 * 64;
  }

  // Another request begins.
  void BeginRequest() { heat_.BeginRequest(); }
  // It uses slices of the expert (ExpertUse::slices). Before they are found or
  // inserted, for it is now that they get their places.
  void Use(ExpertKey expert, uint64_t slices = 0) { heat_.Use(expert, slices); }
  ExpertHeat& heat() { return heat_; }

  // Pins and returns the entry, filling or ready; nullptr on a miss.
  Entry* Find(const SliceKey& key);

  bool Contains(const SliceKey& key) const { return present_.contains(key); }

  // Takes a free slot or that of the coldest slice for `key`; the entry is
  // filling and pinned. nullptr when every slot is pinned. REQUIRES: `key` is
  // absent.
  Entry* Insert(const SliceKey& key);

  // Adds a pin to an entry that has one.
  void Pin(Entry* entry) { ++entry->pins_; }
  // Drops a pin. Returns true when a slot became available by it.
  bool Unpin(Entry* entry);

  // The filler's verdict. A failed entry's slot is free once its pins are gone.
  void SetReady(Entry* entry);
  void SetFailed(Entry* entry, const absl::Status& error);

  // Another number of slots from now on, at most those that were allocated.
  // Where fewer are wanted the coldest slices go and those that stay move
  // together, at most `max_moves` with a call. False while there is more to
  // move. A pinned slice stays where it is until its last pin goes.
  bool Resize(size_t num_slots, size_t max_moves);
  // The memory beyond the last slot that is in use: it may be given back to the
  // system, until Resize asks for it again.
  std::span<uint8_t> UnusedTail();

  // Of all slots; empty where it is somebody else's.
  std::span<uint8_t> memory() { return memory_.bytes(); }

  bool has_free_slot() const { return !free_.empty(); }
  size_t num_slots() const { return num_slots_; }
  size_t num_allocated_slots() const { return entries_.size(); }
  size_t resident_slices() const { return present_.size(); }
  size_t slot_bytes() const { return slot_bytes_; }
  uint64_t evictions() const { return evictions_; }

 private:
  ExpertCache(AlignedBuffer memory, const std::vector<uint8_t*>& slots,
              size_t slot_bytes, double half_life);

  void Rest(Entry* entry, Rank rank);
  void Wake(Entry* entry);
  void Evict(Entry* resting);
  void Free(Entry* entry);
  void Grow(size_t num_slots);
  void Move(Entry* resting);
  size_t IndexOf(const Entry* entry) const { return entry - entries_.data(); }

  AlignedBuffer memory_;
  const size_t slot_bytes_;
  std::vector<Entry> entries_;  // those from num_slots_ on take nothing new
  size_t num_slots_;
  ExpertHeat heat_;
  std::vector<Entry*> free_;
  Resting resting_;  // ready and without pins, the coldest first
  absl::flat_hash_map<SliceKey, Entry*> present_;
  uint64_t num_fills_ = 0;
  uint64_t num_rests_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace deltafin
