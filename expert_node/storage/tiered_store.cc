#include "expert_node/storage/tiered_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/memory_budget.h"
#include "common/base/thread_affinity.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status CheckCapacity(const ExpertShape& shape, size_t capacity_bytes) {
  const size_t slot_bytes =
      ExpertCache::SlotBytes(shape.slice_offset(1) - shape.slice_offset(0));
  const size_t needed = slot_bytes * shape.num_slices();
  if (capacity_bytes >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the expert tier of {} ({} bytes) is smaller than one expert of {} bytes "
      "({} slices); give at least that to --ram",
      FormatByteSize(capacity_bytes), capacity_bytes, needed,
      shape.num_slices()));
}

// ExpertUse::slices of those of the first expert.
uint64_t SlicesOfFirst(std::span<const SliceKey> wanted) {
  uint64_t slices = 0;
  for (const SliceKey& key : wanted) {
    if (key.expert != wanted[0].expert) break;
    if (key.slice < 64) slices |= uint64_t{1} << key.slice;
  }
  return slices;
}

}  // namespace

struct SliceLease::Shared {
  struct Unit {
    SliceKey key;
    // Set once its slot is known, cleared by Release; pinned while set.
    std::atomic<ExpertCache::Entry*> entry{nullptr};
  };
  explicit Shared(size_t num_units) : units(num_units) {}

  std::vector<Unit> units;
  std::atomic<uint64_t> bytes_read{0};
  bool abandoned = false;  // guarded by the store's mutex
};

SliceLease::~SliceLease() {
  Abandon();
  MutexLock lock(store_.mutex_);
  for (Shared::Unit& unit : shared_->units) {
    if (auto* entry = unit.entry.exchange(nullptr)) store_.Unpin(entry);
  }
  store_.slot_available_.NotifyAll();
}

void SliceLease::Abandon() {
  MutexLock lock(store_.mutex_);
  shared_->abandoned = true;
  std::erase_if(store_.fetches_, [this](const TieredStore::Fetch& fetch) {
    return fetch.lease == shared_;
  });
  store_.slot_available_.NotifyAll();
  store_.slice_settled_.NotifyAll();
}

absl::StatusOr<const uint8_t*> SliceLease::Wait(int index) {
  using State = ExpertCache::State;
  const std::atomic<ExpertCache::Entry*>& slot = shared_->units[index].entry;
  ExpertCache::Entry* entry = slot.load(std::memory_order_acquire);
  if (entry == nullptr || entry->state() == State::kFilling) {
    MutexLock lock(store_.mutex_);
    while ((entry = slot.load()) == nullptr ||
           entry->state() == State::kFilling) {
      if (entry == nullptr && shared_->abandoned) {
        return absl::CancelledError("nobody wants this slice any more");
      }
      store_.slice_settled_.Wait(store_.mutex_);
    }
  }
  if (entry->state() == State::kFailed) return entry->error();
  return entry->bytes();
}

bool SliceLease::IsReady(int index) const {
  const ExpertCache::Entry* const entry =
      shared_->units[index].entry.load(std::memory_order_acquire);
  return entry != nullptr && entry->state() != ExpertCache::State::kFilling;
}

void SliceLease::Release(int index) {
  // A lease that waits for nothing soon ends: its pins go together then, with
  // one lock. Any other must give back what it has used, since what it waits
  // for may need the room.
  if (all_ready()) return;
  MutexLock lock(store_.mutex_);
  auto* entry = shared_->units[index].entry.exchange(nullptr);
  if (entry != nullptr) store_.Unpin(entry);
}

uint64_t SliceLease::bytes_read() const { return shared_->bytes_read.load(); }

absl::StatusOr<std::unique_ptr<TieredStore>> TieredStore::Create(
    std::unique_ptr<ExpertStore> lower, const TieredStoreOptions& options) {
  CHECK(options.num_readers >= 1);
  const ExpertShape& shape = lower->shape();
  if (absl::Status status = CheckCapacity(shape, options.capacity_bytes);
      !status.ok()) {
    return status;
  }
  auto cache = ExpertCache::Create(
      shape.slice_offset(1), options.capacity_bytes, options.heat_half_life);
  if (!cache.ok()) return cache.status();
  std::unique_ptr<TieredStore> store(
      new TieredStore(std::move(lower), *std::move(cache)));
  for (int i = 0; i < options.num_readers; ++i) {
    store->readers_.emplace_back([raw = store.get(), i] {
      SetThreadName("expert-read" + std::to_string(i));
      raw->ReaderMain();
    });
  }
  return store;
}

TieredStore::TieredStore(std::unique_ptr<ExpertStore> lower,
                         std::unique_ptr<ExpertCache> cache)
    : lower_(std::move(lower)),
      cache_(std::move(cache)),
      memory_(cache_->memory()),
      expected_(*cache_, cache_->num_slots() / kExpectedPart) {}

TieredStore::~TieredStore() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    fetch_queued_.NotifyAll();
    slot_available_.NotifyAll();
  }
  for (std::thread& reader : readers_) reader.join();
}

// Why leases cannot wait for each other in a circle: slots are given out in one
// order, that of the fetch queue, and every lease uses its slices in it: what
// is ready, then what others had begun to fill, oldest first, then its own. So
// whatever waits for a slot waits only for slices that were given theirs
// before, and the oldest of those waits for nothing.
std::unique_ptr<SliceLease> TieredStore::Acquire(
    std::span<const SliceKey> wanted, std::span<const SliceKey> used) {
  std::unique_ptr<SliceLease> lease(new SliceLease(*this));
  lease->shared_ = std::make_shared<SliceLease::Shared>(wanted.size());
  lease->order_.reserve(wanted.size());
  std::vector<std::pair<uint64_t, int>> filling;  // fill number, unit
  MutexLock lock(mutex_);
  cache_->BeginRequest();
  for (size_t i = 0; i < used.size(); ++i) {
    if (i == 0 || used[i].expert != used[i - 1].expert) {
      cache_->Use(used[i].expert, SlicesOfFirst(used.subspan(i)));
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    SliceLease::Shared::Unit& unit = lease->shared_->units[i];
    unit.key = wanted[i];
    Entry* entry = cache_->Find(wanted[i]);
    unit.entry.store(entry, std::memory_order_release);
    if (entry == nullptr) continue;
    if (expected_.CountUse(entry)) ++lease->expected_hits_;
    if (entry->state() == ExpertCache::State::kReady) {
      lease->order_.push_back(static_cast<int>(i));
    } else {
      filling.emplace_back(entry->fill_number(), static_cast<int>(i));
    }
  }
  lease->all_ready_ = lease->order_.size() == wanted.size();
  std::sort(filling.begin(), filling.end());
  for (const auto& [number, i] : filling) lease->order_.push_back(i);
  lease->hits_ = static_cast<int>(lease->order_.size());
  if (!used.empty() && expected_.EndLayer(used[0].expert.layer)) {
    slot_available_.NotifyAll();
  }
  QueueMisses(*lease);
  stats_.hits += lease->hits();
  stats_.misses += lease->misses();
  return lease;
}

void TieredStore::QueueMisses(SliceLease& lease) {
  const auto& units = lease.shared_->units;
  const int num_units = static_cast<int>(units.size());
  Fetch fetch{lease.shared_, 0, 0};
  const auto flush = [&] {
    if (fetch.num_units > 0) fetches_.push_back(fetch);
    fetch.num_units = 0;
  };
  for (int i = 0; i < num_units; ++i) {
    if (units[i].entry.load() != nullptr) {
      flush();
      continue;
    }
    lease.order_.push_back(i);
    const bool continues = fetch.num_units > 0 &&
                           units[i].key.expert == units[i - 1].key.expert &&
                           units[i].key.slice == units[i - 1].key.slice + 1;
    if (!continues) {
      flush();
      fetch.first_unit = i;
    }
    ++fetch.num_units;
  }
  flush();
  if (lease.misses() > 0) fetch_queued_.NotifyAll();
}

void TieredStore::Expect(int layer, std::span<const ExpectedRun> runs) {
  MutexLock lock(mutex_);
  expected_.Expect(layer, runs);
  fetch_queued_.NotifyOne();
}

TieredStoreStats TieredStore::stats() const {
  MutexLock lock(mutex_);
  TieredStoreStats stats = stats_;
  stats.expected = expected_.stats();
  stats.evictions = cache_->evictions();
  stats.resident_bytes = cache_->resident_slices() * cache_->slot_bytes();
  stats.capacity_bytes = cache_->num_slots() * cache_->slot_bytes();
  return stats;
}

void TieredStore::ReaderMain() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && !MayFetch() && !MayReadAhead() && !MayWarm()) {
      fetch_queued_.Wait(mutex_);
    }
    if (stop_) return;
    if (MayFetch()) {
      ReadNextFetch();
    } else if (MayReadAhead()) {
      ReadNextExpected();
    } else {
      ReadNextWarm();
    }
  }
}

void TieredStore::ReadNextFetch() {
  const Fetch fetch = std::move(fetches_.front());
  fetches_.pop_front();
  taking_slots_ = true;
  ++num_reading_;
  const std::vector<Entry*> entries = TakeSlots(fetch);
  taking_slots_ = false;
  fetch_queued_.NotifyOne();
  mutex_.Unlock();
  Fill(entries, &fetch.lease->bytes_read);
  mutex_.Lock();
  if (--num_reading_ == 0) fetch_queued_.NotifyOne();
}

// Takes no slot of what is pinned and waits for none.
void TieredStore::ReadNextExpected() {
  const ExpectedRun next = *expected_.Take(lower_->slices_per_read());
  std::vector<Entry*> to_fill;
  for (int i = 0; i < next.run.count; ++i) {
    const SliceKey key = {next.expert, next.run.first + i};
    if (cache_->Contains(key) || !lower_->IsNear(key.expert, {key.slice, 1})) {
      continue;
    }
    Entry* entry = cache_->Insert(key);
    if (entry == nullptr) break;
    cache_->Pin(entry);  // the reader's own
    expected_.Hold(entry);
    to_fill.push_back(entry);
  }
  FillAhead(to_fill);
}

std::vector<ExpertCache::Entry*> TieredStore::TakeSlots(const Fetch& fetch) {
  std::vector<Entry*> to_fill;
  for (int i = 0; i < fetch.num_units; ++i) {
    auto& unit = fetch.lease->units[fetch.first_unit + i];
    while (!fetch.lease->abandoned && !stop_) {
      Entry* entry = cache_->Find(unit.key);
      const bool was_present = entry != nullptr;
      if (!was_present && (entry = cache_->Insert(unit.key)) != nullptr) {
        cache_->Pin(entry);  // the reader's own
        to_fill.push_back(entry);
      }
      unit.entry.store(entry, std::memory_order_release);
      // It may be ready already, and its use may make the room that is needed
      // next.
      if (was_present) slice_settled_.NotifyAll();
      if (entry != nullptr) break;
      if (!expected_.Clear()) slot_available_.Wait(mutex_);
    }
  }
  return to_fill;
}

// An abandoned lease's slots are filled all the same: another lease may have
// found them meanwhile.
void TieredStore::Fill(const std::vector<Entry*>& entries,
                       std::atomic<uint64_t>* bytes_read) {
  const std::span<Entry* const> all(entries);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;
    while (end < all.size() &&
           all[end]->key().slice == all[end - 1]->key().slice + 1) {
      ++end;
    }
    FillRun(all.subspan(begin, end - begin), bytes_read);
    begin = end;
  }
}

void TieredStore::FillRun(std::span<Entry* const> run,
                          std::atomic<uint64_t>* bytes_read) {
  const SliceKey first = run.front()->key();
  std::vector<uint8_t*> out;
  for (const Entry* entry : run) out.push_back(entry->bytes());
  // The last slice is handed out once the read is accounted for, so that who
  // waited for it sees all of its bytes.
  std::vector<bool> settled(run.size(), false);
  size_t num_read = 0;
  const absl::StatusOr<uint64_t> read =
      lower_->Read(first.expert, {first.slice, static_cast<int>(run.size())},
                   out, [&](int slice) {
                     if (++num_read == run.size()) return;
                     settled[slice - first.slice] = true;
                     Settle(run[slice - first.slice], absl::OkStatus());
                   });
  if (read.ok()) {
    CHECK(num_read == run.size(), "a store returned OK without all slices");
    *bytes_read += *read;
    MutexLock lock(mutex_);
    stats_.bytes_read += *read;
  }
  for (size_t i = 0; i < run.size(); ++i) {
    if (!settled[i]) Settle(run[i], read.status());
  }
}

void TieredStore::Settle(Entry* entry, const absl::Status& status) {
  MutexLock lock(mutex_);
  if (status.ok()) {
    cache_->SetReady(entry);
  } else {
    cache_->SetFailed(entry, status);
  }
  Unpin(entry);
  slice_settled_.NotifyAll();
}

void TieredStore::Unpin(Entry* entry) {
  if (cache_->Unpin(entry)) slot_available_.NotifyAll();
}

}  // namespace deltafin
