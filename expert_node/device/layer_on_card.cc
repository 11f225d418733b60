#include "expert_node/device/layer_on_card.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "expert_node/device/card_routes.h"

namespace deltafin {
namespace {

// Slices that arrive before a run of them starts. A run costs some 20 us on its
// own, eight slices of the full model 0.2 ms of a link of 50 GB/s: runs hide
// behind copies, and after the last copy little is left to do.
constexpr size_t kBatch = 8;

}  // namespace

LayerOnCard::LayerOnCard(CardTier& tier, const WorkPlan& plan)
    : tier_(tier),
      plan_(plan),
      read_by_(tier.num_stages_, -1),
      entry_(plan.units.size(), nullptr) {
  MutexLock lock(tier_.mutex_);
  tier_.cache_->BeginRequest();
}

LayerOnCard::~LayerOnCard() {
  // Also forgets an error of the computation that nobody wants to know.
  if (runs_) tier_.card_->Finish().IgnoreError();
  MutexLock lock(tier_.mutex_);
  Unpin();
}

bool LayerOnCard::Take(int unit) {
  const SliceKey& key = plan_.slices[unit];
  MutexLock lock(tier_.mutex_);
  if (key.expert != last_expert_) tier_.cache_->Use(key.expert);
  last_expert_ = key.expert;
  has_units_ = true;
  Entry* const entry = tier_.cache_->Find(key);
  if (entry == nullptr) {
    ++tier_.stats_.misses;
    return false;
  }
  ++tier_.stats_.hits;
  pinned_.push_back(entry);
  entry_[unit] = entry;
  batch_.push_back(unit);
  return true;
}

absl::Status LayerOnCard::Begin(std::span<const float* const> rows,
                                SliceLease& lease) {
  runs_ = true;
  lease_ = &lease;
  RETURN_IF_ERROR(tier_.card_->Begin(rows));
  return RunBatch();
}

absl::Status LayerOnCard::Bring(const Missing& missing) {
  const int stage = tier_.next_stage_;
  tier_.next_stage_ = (stage + 1) % tier_.num_stages_;
  RETURN_IF_ERROR(FinishCopy(stage));
  RETURN_IF_ERROR(Copy(missing, stage));
  batch_.push_back(missing.unit);
  return batch_.size() < kBatch ? absl::OkStatus() : RunBatch();
}

absl::Status LayerOnCard::FinishCopy(int stage) {
  RETURN_IF_ERROR(tier_.card_->WaitForStage(stage));
  if (read_by_[stage] >= 0) lease_->Release(read_by_[stage]);
  read_by_[stage] = -1;
  return absl::OkStatus();
}

absl::Status LayerOnCard::FinishCopies() {
  for (int stage = 0; stage < tier_.num_stages_; ++stage) {
    if (read_by_[stage] >= 0) RETURN_IF_ERROR(FinishCopy(stage));
  }
  return absl::OkStatus();
}

absl::Status LayerOnCard::Copy(const Missing& missing, int stage) {
  const SliceKey& key = plan_.slices[missing.unit];
  const size_t size = tier_.shape_.slice_offset(key.slice + 1) -
                      tier_.shape_.slice_offset(key.slice);
  const uint8_t* from = missing.bytes;
  if (missing.is_pinned) {
    read_by_[stage] = missing.index;
  } else {
    uint8_t* const buffer = tier_.card_->stage(stage);
    std::memcpy(buffer, from, size);
    lease_->Release(missing.index);
    from = buffer;
  }
  MutexLock lock(tier_.mutex_);
  Entry* entry = tier_.cache_->Find(key);  // of another unit
  if (entry == nullptr) {
    ASSIGN_OR_RETURN(entry, TakeSlot(key));
    // From here on it is there for whoever looks, so it must come.
    pinned_.push_back(entry);
    tier_.stats_.copied_bytes += size;
    RETURN_IF_ERROR(tier_.card_->CopyIn(stage, from, entry->bytes(), size));
  } else {
    pinned_.push_back(entry);
  }
  entry_[missing.unit] = entry;
  return absl::OkStatus();
}

void LayerOnCard::CountComputed() {
  MutexLock lock(tier_.mutex_);
  ++tier_.stats_.computed;
}

// Every run that uses the slot comes after the copy to it, so it is as good as
// filled. Where all slots are pinned what was started is waited for: the
// request needs more than the card holds.
absl::StatusOr<ExpertCache::Entry*> LayerOnCard::TakeSlot(const SliceKey& key) {
  Entry* entry = tier_.cache_->Insert(key);
  if (entry == nullptr) {
    RETURN_IF_ERROR(RunBatch());
    RETURN_IF_ERROR(tier_.card_->Wait());
    Unpin();
    entry = tier_.cache_->Insert(key);
    CHECK(entry != nullptr, "a card without slots");
  }
  tier_.cache_->SetReady(entry);
  return entry;
}

absl::Status LayerOnCard::RunBatch() {
  const int num_rows = static_cast<int>(plan_.row_tokens.size());
  const size_t at_once = tier_.card_->max_slices();
  const int rows_at_once = tier_.card_->max_run_rows();
  const std::span<const int> units(batch_);
  for (size_t begin = 0; begin < units.size(); begin += at_once) {
    const auto part =
        units.subspan(begin, std::min(at_once, units.size() - begin));
    for (int row = 0; row < num_rows; row += rows_at_once) {
      RETURN_IF_ERROR(
          RunRows(part, row, std::min(rows_at_once, num_rows - row)));
    }
  }
  batch_.clear();
  return absl::OkStatus();
}

absl::Status LayerOnCard::RunRows(std::span<const int> units, int first_row,
                                  int num_rows) {
  const CardRoutes routes = RoutesOfRows(plan_, units, first_row, num_rows);
  if (routes.routes_of_row == 0) return absl::OkStatus();
  std::vector<CardSlice> slices;
  slices.reserve(units.size());
  for (const int unit : units) {
    slices.push_back({entry_[unit]->bytes(), plan_.slices[unit].slice});
  }
  CardRun run;
  run.slices = slices;
  run.first_row = first_row;
  run.num_rows = num_rows;
  run.routes_of_row = routes.routes_of_row;
  run.routes = routes.routes;
  return tier_.card_->Run(run);
}

// What was started may still run: nothing takes the slots before the next
// request, or, where TakeSlot does, what was started is done.
absl::StatusOr<KernelStatus> LayerOnCard::Finish() {
  RETURN_IF_ERROR(RunBatch());
  {
    MutexLock lock(tier_.mutex_);
    Unpin();
  }
  runs_ = false;
  return tier_.card_->Finish();
}

void LayerOnCard::Unpin() {
  for (Entry* entry : pinned_) tier_.cache_->Unpin(entry);
  pinned_.clear();
}

}  // namespace deltafin
