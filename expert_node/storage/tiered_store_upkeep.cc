// What a tier does besides serving leases: it warms up after a start and lets
// its memory be taken and given.

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "expert_node/storage/tiered_store.h"

namespace deltafin {
namespace {

constexpr size_t kPageBytes = 4096;
// Slices that are moved while leases wait: 11 MB of the full model, some 3 ms.
constexpr size_t kMovesPerTurn = 8;

// The runs of slices that were used, none longer than `most`.
std::vector<ExpectedRun> RunsOf(const ExpertUse& use, int most) {
  std::vector<ExpectedRun> runs;
  for (int first = 0; first < 64 && use.slices >> first != 0;) {
    first += std::countr_zero(use.slices >> first);
    const int count = std::min(most, std::countr_one(use.slices >> first));
    runs.push_back({use.expert, {first, count}});
    first += count;
  }
  return runs;
}

}  // namespace

void TieredStore::WarmUp(const HeatPage& page) {
  std::vector<ExpertUse> uses = page.uses;
  std::sort(uses.begin(), uses.end(),
            [](const ExpertUse& a, const ExpertUse& b) {
              return a.heat != b.heat ? a.heat > b.heat : a.expert < b.expert;
            });
  const int num_slices = shape().num_slices();
  MutexLock lock(mutex_);
  cache_->heat().Restore(page);
  size_t wanted = 0;
  for (const ExpertUse& use : uses) {
    for (const ExpectedRun& one : RunsOf(use, lower_->slices_per_read())) {
      if (wanted >= cache_->num_slots()) break;
      if (one.run.first + one.run.count > num_slices) continue;
      to_warm_.push_back(one);
      wanted += one.run.count;
    }
  }
  fetch_queued_.NotifyAll();
}

HeatPage TieredStore::TakeUses() {
  MutexLock lock(mutex_);
  return cache_->heat().TakeUses();
}

double TieredStore::HeatOf(ExpertKey expert) const {
  MutexLock lock(mutex_);
  return cache_->heat().Of(expert);
}

// Takes no slot from anybody, and does not try what would have to come from
// elsewhere.
void TieredStore::ReadNextWarm() {
  const ExpectedRun next = to_warm_.front();
  to_warm_.pop_front();
  std::vector<Entry*> to_fill;
  for (int i = 0; i < next.run.count; ++i) {
    const SliceKey key = {next.expert, next.run.first + i};
    if (cache_->Contains(key) || !lower_->IsNear(key.expert, {key.slice, 1})) {
      continue;
    }
    if (!cache_->has_free_slot()) {
      to_warm_.clear();
      break;
    }
    to_fill.push_back(cache_->Insert(key));
  }
  stats_.warmed += to_fill.size();
  FillAhead(to_fill);
}

void TieredStore::FillAhead(const std::vector<Entry*>& entries) {
  ++num_ahead_;
  mutex_.Unlock();
  std::atomic<uint64_t> bytes_read{0};
  Fill(entries, &bytes_read);
  mutex_.Lock();
  --num_ahead_;
}

uint64_t TieredStore::max_capacity_bytes() const {
  MutexLock lock(mutex_);
  return cache_->num_allocated_slots() * cache_->slot_bytes();
}

void TieredStore::SetMemoryHolder(TierMemoryHolder* holder) {
  MutexLock lock(holder_mutex_);
  holder_ = holder;
}

void TieredStore::SetCapacity(uint64_t bytes) {
  size_t num_slots = 0;
  {
    MutexLock lock(mutex_);
    num_slots =
        std::clamp<size_t>(bytes / cache_->slot_bytes(), shape().num_slices(),
                           cache_->num_allocated_slots());
    expected_.SetLimit(num_slots / kExpectedPart);
  }
  bool is_moved = false;
  while (!is_moved) {
    MutexLock lock(mutex_);
    is_moved = cache_->Resize(num_slots, kMovesPerTurn);
    slot_available_.NotifyAll();
  }
  std::span<uint8_t> unused;
  {
    MutexLock lock(mutex_);
    unused = cache_->UnusedTail();
  }
  // Nobody but this thread can make a slot of it again.
  {
    MutexLock lock(holder_mutex_);
    if (holder_ != nullptr) unused = holder_->LetGo(unused);
  }
  const auto begin = reinterpret_cast<uintptr_t>(unused.data());
  const uintptr_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uintptr_t end = (begin + unused.size()) / kPageBytes * kPageBytes;
  if (end <= first) return;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace deltafin
