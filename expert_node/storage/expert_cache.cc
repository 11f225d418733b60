#include "expert_node/storage/expert_cache.h"

#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<ExpertCache>> ExpertCache::Create(
    size_t slice_bytes, size_t capacity_bytes, double half_life) {
  const size_t slot_bytes = SlotBytes(slice_bytes);
  const size_t num_slots = capacity_bytes / slot_bytes;
  ASSIGN_OR_RETURN(AlignedBuffer memory,
                   AlignedBuffer::Allocate(num_slots * slot_bytes));
  std::vector<uint8_t*> slots(num_slots);
  for (size_t i = 0; i < num_slots; ++i) {
    slots[i] = memory.data() + i * slot_bytes;
  }
  return std::unique_ptr<ExpertCache>(
      new ExpertCache(std::move(memory), slots, slot_bytes, half_life));
}

std::unique_ptr<ExpertCache> ExpertCache::Over(
    const std::vector<uint8_t*>& slots, size_t slot_bytes, double half_life) {
  return std::unique_ptr<ExpertCache>(
      new ExpertCache(AlignedBuffer(), slots, slot_bytes, half_life));
}

ExpertCache::ExpertCache(AlignedBuffer memory,
                         const std::vector<uint8_t*>& slots, size_t slot_bytes,
                         double half_life)
    : memory_(std::move(memory)),
      slot_bytes_(slot_bytes),
      entries_(slots.size()),
      num_slots_(slots.size()),
      heat_(half_life) {
  free_.reserve(num_slots_);
  for (size_t i = num_slots_; i-- > 0;) {
    entries_[i].bytes_ = slots[i];
    free_.push_back(&entries_[i]);
  }
}

// Nodes of the map are kept with their entries: moving one allocates nothing.
void ExpertCache::Rest(Entry* entry, Rank rank) {
  entry->rests_ = true;
  if (entry->parked_.empty()) {
    entry->place_ = resting_.emplace(rank, entry).first;
    return;
  }
  entry->parked_.key() = rank;
  entry->place_ = resting_.insert(std::move(entry->parked_)).position;
}

void ExpertCache::Wake(Entry* entry) {
  entry->rests_ = false;
  entry->parked_ = resting_.extract(entry->place_);
}

void ExpertCache::Free(Entry* entry) {
  if (IndexOf(entry) < num_slots_) free_.push_back(entry);
}

void ExpertCache::Evict(Entry* resting) {
  Wake(resting);
  present_.erase(resting->key_);
  Free(resting);
  ++evictions_;
}

ExpertCache::Entry* ExpertCache::Find(const SliceKey& key) {
  const auto found = present_.find(key);
  if (found == present_.end()) return nullptr;
  Entry* entry = found->second;
  if (entry->pins_++ == 0) Wake(entry);
  return entry;
}

ExpertCache::Entry* ExpertCache::Insert(const SliceKey& key) {
  while (free_.empty()) {
    if (resting_.empty()) return nullptr;
    Evict(resting_.begin()->second);
  }
  Entry* entry = free_.back();
  free_.pop_back();
  entry->key_ = key;
  entry->pins_ = 1;
  entry->fill_number_ = ++num_fills_;
  entry->error_ = absl::OkStatus();
  entry->state_.store(State::kFilling, std::memory_order_relaxed);
  CHECK(present_.emplace(key, entry).second);
  return entry;
}

bool ExpertCache::Unpin(Entry* entry) {
  DCHECK(entry->pins_ > 0);
  if (--entry->pins_ > 0) return false;
  if (entry->state() == State::kFailed) {
    Free(entry);
    return true;
  }
  Rest(entry, {heat_.Of(entry->key_.expert), ++num_rests_});
  if (IndexOf(entry) >= num_slots_) Evict(entry);
  return true;
}

void ExpertCache::SetReady(Entry* entry) {
  entry->state_.store(State::kReady, std::memory_order_release);
}

void ExpertCache::SetFailed(Entry* entry, const absl::Status& error) {
  present_.erase(entry->key_);
  entry->error_ = error;
  entry->state_.store(State::kFailed, std::memory_order_release);
}

bool ExpertCache::Resize(size_t num_slots, size_t max_moves) {
  DCHECK(num_slots <= entries_.size());
  if (num_slots > num_slots_) Grow(num_slots);
  num_slots_ = num_slots;
  std::erase_if(free_,
                [&](Entry* entry) { return IndexOf(entry) >= num_slots; });
  while (present_.size() > num_slots && !resting_.empty()) {
    Evict(resting_.begin()->second);
  }
  for (size_t i = num_slots; i < entries_.size(); ++i) {
    if (!entries_[i].rests_) continue;
    if (max_moves-- == 0) return false;
    Move(&entries_[i]);
  }
  return true;
}

void ExpertCache::Grow(size_t num_slots) {
  for (size_t i = num_slots; i-- > num_slots_;) {
    if (entries_[i].pins_ == 0 && !entries_[i].rests_) {
      free_.push_back(&entries_[i]);
    }
  }
}

// To a slot that is free; without one the slice goes.
void ExpertCache::Move(Entry* resting) {
  if (free_.empty()) return Evict(resting);
  Entry* const to = free_.back();
  free_.pop_back();
  std::memcpy(to->bytes_, resting->bytes_, slot_bytes_);
  to->key_ = resting->key_;
  to->fill_number_ = resting->fill_number_;
  to->error_ = absl::OkStatus();
  to->state_.store(State::kReady, std::memory_order_release);
  present_[to->key_] = to;
  const Rank rank = resting->place_->first;
  Wake(resting);
  Rest(to, rank);
}

std::span<uint8_t> ExpertCache::UnusedTail() {
  size_t first = entries_.size();
  while (first > num_slots_ && entries_[first - 1].pins_ == 0 &&
         !entries_[first - 1].rests_) {
    --first;
  }
  return memory_.bytes().subspan(first * slot_bytes_);
}

}  // namespace deltafin
