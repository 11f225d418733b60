#include "expert_node/storage/expert_cache.h"

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
  return std::unique_ptr<ExpertCache>(
      new ExpertCache(std::move(memory), slot_bytes, num_slots, half_life));
}

ExpertCache::ExpertCache(AlignedBuffer memory, size_t slot_bytes,
                         size_t num_slots, double half_life)
    : memory_(std::move(memory)),
      slot_bytes_(slot_bytes),
      entries_(num_slots),
      heat_(half_life) {
  free_.reserve(num_slots);
  for (size_t i = num_slots; i-- > 0;) {
    entries_[i].bytes_ = memory_.data() + i * slot_bytes;
    free_.push_back(&entries_[i]);
  }
}

// Nodes of the map are kept with their entries: moving one allocates nothing.
void ExpertCache::Rest(Entry* entry) {
  const Rank rank(heat_.Of(entry->key_.expert), ++num_rests_);
  if (entry->parked_.empty()) {
    entry->place_ = resting_.emplace(rank, entry).first;
    return;
  }
  entry->parked_.key() = rank;
  entry->place_ = resting_.insert(std::move(entry->parked_)).position;
}

void ExpertCache::Wake(Entry* entry) {
  entry->parked_ = resting_.extract(entry->place_);
}

ExpertCache::Entry* ExpertCache::Find(const SliceKey& key) {
  const auto found = present_.find(key);
  if (found == present_.end()) return nullptr;
  Entry* entry = found->second;
  if (entry->pins_++ == 0) Wake(entry);
  return entry;
}

ExpertCache::Entry* ExpertCache::Insert(const SliceKey& key) {
  if (free_.empty()) {
    if (resting_.empty()) return nullptr;
    Entry* coldest = resting_.begin()->second;
    Wake(coldest);
    free_.push_back(coldest);
    present_.erase(coldest->key_);
    ++evictions_;
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
    free_.push_back(entry);
  } else {
    Rest(entry);
  }
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

}  // namespace deltafin
