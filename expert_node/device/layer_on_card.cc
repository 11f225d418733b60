#include "expert_node/device/layer_on_card.h"

#include <algorithm>
#include <cstring>

#include "common/base/status_macros.h"
#include "expert_node/device/card_routes.h"
#include "expert_node/device/stage_size.h"

namespace deltafin {
namespace {

// Slices that arrive before a run of them starts. A run costs some 20 us on its
// own, 16 slices of the full model 0.4 ms of a link of 55 GB/s: runs hide
// behind copies, and after the last copy little is left to do.
constexpr size_t kBatch = 16;

}  // namespace

LayerOnCard::LayerOnCard(CardTier& tier, const WorkPlan& plan)
    : tier_(tier), plan_(plan), entry_(plan.units.size(), nullptr) {
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
  entry_[unit] = entry;
  AddToBatch(unit, entry);
  return true;
}

absl::Status LayerOnCard::Begin(std::span<const float* const> rows) {
  runs_ = true;
  RETURN_IF_ERROR(tier_.card_->Begin(rows));
  return RunBatch();
}

absl::Status LayerOnCard::Add(int unit, const uint8_t* bytes,
                              absl::FunctionRef<void()> is_read) {
  absl::StatusOr<Entry*> entry = Place(unit);
  if (!entry.ok()) return Fail(entry.status());
  absl::Status status;
  if (*entry != nullptr) {
    const int slice = plan_.slices[unit].slice;
    status = Send(*entry, bytes,
                  tier_.shape_.slice_offset(slice + 1) -
                      tier_.shape_.slice_offset(slice));
  }
  is_read();
  if (status.ok() && *entry != nullptr) status = Complete(unit, *entry);
  return status.ok() ? status : Fail(status);
}

// Where all slots are pinned what was started is waited for, since the request
// needs more than the card holds; where others are just filling all of them,
// so are they.
absl::StatusOr<ExpertCache::Entry*> LayerOnCard::Place(int unit) {
  const SliceKey& key = plan_.slices[unit];
  MutexLock lock(tier_.mutex_);
  while (true) {
    RETURN_IF_ERROR(failure_);
    Entry* entry = tier_.cache_->Find(key);
    if (entry != nullptr) {
      entry_[unit] = entry;
      if (entry->state() == ExpertCache::State::kFilling) {
        followers_.push_back(unit);
      } else {
        AddToBatch(unit, entry);
      }
      return nullptr;
    }
    entry = tier_.cache_->Insert(key);
    if (entry != nullptr) return entry;
    if (pinned_.empty()) {
      changed_.Wait(tier_.mutex_);
      continue;
    }
    RETURN_IF_ERROR(RunBatch());
    RETURN_IF_ERROR(tier_.card_->Wait());
    Unpin();
  }
}

absl::Status LayerOnCard::Send(Entry* entry, const uint8_t* bytes,
                               size_t size) {
  const size_t piece_bytes = StageBytes(tier_.shape_);
  for (size_t at = 0; at < size; at += piece_bytes) {
    const size_t piece = std::min(piece_bytes, size - at);
    ASSIGN_OR_RETURN(const int stage, tier_.TakeStage());
    std::memcpy(tier_.card_->stage(stage), bytes + at, piece);
    MutexLock lock(tier_.mutex_);
    const absl::Status status =
        tier_.card_->CopyIn(stage, entry->bytes() + at, piece);
    tier_.ReturnStage(stage);
    RETURN_IF_ERROR(status);
    tier_.stats_.copied_bytes += piece;
  }
  return absl::OkStatus();
}

// Every run that uses the slot comes after the copies to it.
absl::Status LayerOnCard::Complete(int unit, Entry* entry) {
  MutexLock lock(tier_.mutex_);
  tier_.cache_->SetReady(entry);
  entry_[unit] = entry;
  AddToBatch(unit, entry);
  std::erase_if(followers_, [&](int follower) {
    if (entry_[follower] != entry) return false;
    AddToBatch(follower, entry);
    return true;
  });
  changed_.NotifyAll();
  return batch_.size() < kBatch ? absl::OkStatus() : RunBatch();
}

void LayerOnCard::AddToBatch(int unit, Entry* entry) {
  pinned_.push_back(entry);
  batch_.push_back(unit);
}

absl::Status LayerOnCard::Fail(const absl::Status& why) {
  MutexLock lock(tier_.mutex_);
  if (failure_.ok()) failure_ = why;
  changed_.NotifyAll();
  return why;
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
// request.
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
