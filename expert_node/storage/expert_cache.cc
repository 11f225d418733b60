#include "expert_node/storage/expert_cache.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<ExpertCache>> ExpertCache::Create(
    size_t slice_bytes, size_t capacity_bytes) {
  const size_t slot_bytes = SlotBytes(slice_bytes);
  const size_t num_slots = capacity_bytes / slot_bytes;
  ASSIGN_OR_RETURN(AlignedBuffer memory,
                   AlignedBuffer::Allocate(num_slots * slot_bytes));
  return std::unique_ptr<ExpertCache>(
      new ExpertCache(std::move(memory), slot_bytes, num_slots));
}

ExpertCache::ExpertCache(AlignedBuffer memory, size_t slot_bytes,
                         size_t num_slots)
    : memory_(std::move(memory)), slot_bytes_(slot_bytes), entries_(num_slots) {
  for (size_t i = 0; i < num_slots; ++i) {
    entries_[i].bytes_ = memory_.data() + i * slot_bytes;
    entries_[i].place_ = free_.insert(free_.end(), &entries_[i]);
  }
}

void ExpertCache::Move(Entry* entry, std::list<Entry*>& from,
                       std::list<Entry*>& to) {
  to.splice(to.end(), from, entry->place_);
}

ExpertCache::Entry* ExpertCache::Find(const SliceKey& key) {
  const auto found = present_.find(key);
  if (found == present_.end()) return nullptr;
  Entry* entry = found->second;
  if (entry->pins_++ == 0) Move(entry, unpinned_, pinned_);
  return entry;
}

ExpertCache::Entry* ExpertCache::Insert(const SliceKey& key) {
  if (free_.empty()) {
    if (unpinned_.empty()) return nullptr;
    Entry* oldest = unpinned_.front();
    Move(oldest, unpinned_, free_);
    present_.erase(oldest->key_);
    ++evictions_;
  }
  Entry* entry = free_.front();
  Move(entry, free_, pinned_);
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
  const bool failed = entry->state() == State::kFailed;
  Move(entry, pinned_, failed ? free_ : unpinned_);
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
