#include "expert_node/layer_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t RoundToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

absl::Status Grow(AlignedBuffer& buffer, size_t bytes) {
  if (buffer.size() >= bytes) return absl::OkStatus();
  buffer = AlignedBuffer();  // so that old and new are never held together
  ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(bytes));
  return absl::OkStatus();
}

const char* Reason(KernelStatus kind) {
  return kind == KernelStatus::kNotFinite
             ? "an activation is inf or NaN"
             : "an expert output is inf, NaN or not below 2^15";
}

}  // namespace

// Fields of the packed place, most significant first; a run has at most
// 65,535 tokens and an expert at most 256 slices (docs/numerics.md section 8).
void LowestError::Report(const Place& place) {
  const uint64_t packed = static_cast<uint64_t>(place.expert) << 40 |
                          static_cast<uint64_t>(place.token) << 24 |
                          static_cast<uint64_t>(place.slice) << 8 |
                          static_cast<uint64_t>(place.kind);
  uint64_t seen = lowest_.load();
  while (packed < seen && !lowest_.compare_exchange_weak(seen, packed)) {
  }
}

LowestError::Place LowestError::place() const {
  const uint64_t packed = lowest_.load();
  return {static_cast<int>(packed >> 40),
          static_cast<int>(packed >> 24 & 0xffff),
          static_cast<int>(packed >> 8 & 0xffff),
          static_cast<KernelStatus>(packed & 0xff)};
}

bool LowestError::IsBelow(int expert) const {
  return lowest_.load() >> 40 < static_cast<uint64_t>(expert);
}

LayerRun::LayerRun(const MergedWork& work, const std::atomic<bool>& cancelled,
                   const Machine& machine, LayerWorkspace& workspace)
    : work_(work),
      cancelled_(cancelled),
      machine_(machine),
      workspace_(workspace),
      plan_(PlanWork(work)) {
  CutPasses();
}

void LayerRun::CutPasses() {
  size_t offset = 0;
  for (const TokenList& list : plan_.token_lists) {
    first_pass_.push_back(static_cast<int>(passes_.size()));
    const int num_tokens = static_cast<int>(list.tokens.size());
    for (int first = 0; first < num_tokens; first += kMaxPassTokens) {
      Pass pass;
      pass.token_list = static_cast<int>(first_pass_.size()) - 1;
      pass.first = first;
      pass.num_tokens = std::min(kMaxPassTokens, num_tokens - first);
      pass.prepared = offset;
      offset += RoundToLine(machine_.kernel.prepared_bytes(
          machine_.shape.latent_size, pass.num_tokens));
      passes_.push_back(std::move(pass));
    }
  }
  first_pass_.push_back(static_cast<int>(passes_.size()));
  StartOver();
}

void LayerRun::StartOver() {
  for (Pass& pass : passes_) {
    pass.bad_token = -1;
    pass.prepared_once = std::make_unique<std::once_flag>();
  }
  list_is_bad_.assign(plan_.token_lists.size(), 0);
  touched_.assign(machine_.num_threads * plan_.row_tokens.size(), 0);
  error_.Forget();
  stop_ = false;
  MutexLock lock(mutex_);
  failure_ = absl::OkStatus();
}

size_t LayerRun::prepared_bytes() const {
  if (passes_.empty()) return 0;
  const Pass& last = passes_.back();
  return last.prepared + RoundToLine(machine_.kernel.prepared_bytes(
                             machine_.shape.latent_size, last.num_tokens));
}

absl::Status LayerRun::Allocate() {
  const size_t threads = machine_.num_threads;
  const size_t scratch = RoundToLine(
      machine_.kernel.scratch_bytes(machine_.shape, kMaxPassTokens));
  RETURN_IF_ERROR(Grow(workspace_.prepared, prepared_bytes()));
  RETURN_IF_ERROR(Grow(workspace_.scratch, threads * scratch));
  return Grow(workspace_.sums,
              touched_.size() * sizeof(int64_t) * machine_.shape.latent_size);
}

void LayerRun::Prepare(int task) {
  Pass& pass = passes_[task];
  const TokenList& list = plan_.token_lists[pass.token_list];
  std::array<const float*, kMaxPassTokens> rows;
  for (int i = 0; i < pass.num_tokens; ++i) {
    rows[i] = work_.latent_row(list.tokens[pass.first + i]);
  }
  int bad_token = 0;
  const KernelStatus status = machine_.kernel.prepare(
      rows.data(), machine_.shape.latent_size, pass.num_tokens,
      workspace_.prepared.data() + pass.prepared, &bad_token);
  if (status != KernelStatus::kOk) pass.bad_token = pass.first + bad_token;
}

void LayerRun::CheckPrepared() {
  std::vector<int> bad_token(plan_.token_lists.size(), -1);
  for (const Pass& pass : passes_) {
    int& bad = bad_token[pass.token_list];
    if (bad < 0 && pass.bad_token >= 0) {
      bad = plan_.token_lists[pass.token_list].tokens[pass.bad_token];
      list_is_bad_[pass.token_list] = 1;
    }
  }
  for (const ExpertGroup& group : plan_.groups) {
    if (!list_is_bad_[group.token_list]) continue;
    error_.Report({group.expert, bad_token[group.token_list], group.run.first,
                   KernelStatus::kNotFinite});
  }
}

absl::StatusOr<const uint8_t*> LayerRun::WaitForSlice(SliceLease& lease,
                                                      int unit) {
  if (lease.all_ready()) return lease.Wait(unit);
  const absl::Duration begin = SystemClock().Elapsed();
  absl::StatusOr<const uint8_t*> slice = lease.Wait(unit);
  waited_ns_ += absl::ToInt64Nanoseconds(SystemClock().Elapsed() - begin);
  return slice;
}

bool LayerRun::StopIfCancelled() {
  if (!cancelled_.load(std::memory_order_relaxed)) return false;
  Stop(absl::CancelledError("cancelled by the coordinator"));
  return true;
}

// A unit that cannot change the outcome still waits for its slice and gives it
// back, so that the slices behind it find room.
void LayerRun::RunUnit(SliceLease& lease, int unit_index, int worker) {
  if (stop_.load(std::memory_order_relaxed)) return;
  // Others may wait for room that nobody is going to make after a stop.
  if (StopIfCancelled()) return lease.Abandon();
  const absl::StatusOr<const uint8_t*> slice = WaitForSlice(lease, unit_index);
  if (!slice.ok()) {
    Stop(slice.status());
    return lease.Abandon();
  }
  const WorkUnit& unit = plan_.units[unit_index];
  const ExpertGroup& group = plan_.groups[unit.group];
  if (!list_is_bad_[group.token_list] && !error_.IsBelow(group.expert)) {
    Compute(unit, *slice, worker);
  }
  lease.Release(unit_index);
}

void LayerRun::RunSlice(int unit_index, const uint8_t* slice, int worker) {
  const WorkUnit& unit = plan_.units[unit_index];
  const ExpertGroup& group = plan_.groups[unit.group];
  for (int p = first_pass_[group.token_list];
       p < first_pass_[group.token_list + 1]; ++p) {
    std::call_once(*passes_[p].prepared_once, [&] { Prepare(p); });
    if (passes_[p].bad_token >= 0) {
      error_.Report({group.expert, 0, unit.slice, KernelStatus::kNotFinite});
      return;
    }
  }
  Compute(unit, slice, worker);
}

void LayerRun::Compute(const WorkUnit& unit, const uint8_t* slice, int worker) {
  const int list = plan_.groups[unit.group].token_list;
  for (int p = first_pass_[list]; p < first_pass_[list + 1]; ++p) {
    ComputePass(unit, passes_[p], slice, worker);
  }
}

void LayerRun::ComputePass(const WorkUnit& unit, const Pass& pass,
                           const uint8_t* slice, int worker) {
  const ExpertGroup& group = plan_.groups[unit.group];
  const TokenList& list = plan_.token_lists[pass.token_list];
  std::array<int64_t*, kMaxPassTokens> sums;
  for (int i = 0; i < pass.num_tokens; ++i) {
    sums[i] = SumsRow(worker, list.rows[pass.first + i]);
  }
  const size_t scratch = workspace_.scratch.size() / machine_.num_threads;
  ExpertSliceArgs args;
  args.shape = machine_.shape;
  args.situ = machine_.situ;
  args.slices = slice;
  args.run = {unit.slice, 1};
  args.num_tokens = pass.num_tokens;
  args.prepared = workspace_.prepared.data() + pass.prepared;
  args.weights = group.weights.data() + pass.first;
  args.sums = sums.data();
  args.scratch = workspace_.scratch.data() + worker * scratch;
  int bad_token = 0;
  const KernelStatus status = machine_.kernel.run_slices(args, &bad_token);
  if (status != KernelStatus::kOk) {
    error_.Report({group.expert, list.tokens[pass.first + bad_token],
                   unit.slice, status});
  }
}

int64_t* LayerRun::SumsRow(int worker, int row) {
  const size_t index = worker * plan_.row_tokens.size() + row;
  const size_t width = machine_.shape.latent_size;
  int64_t* sums = workspace_.sums.as<int64_t>() + index * width;
  if (!touched_[index]) {
    std::fill_n(sums, width, 0);
    touched_[index] = 1;
  }
  return sums;
}

void LayerRun::MergeRow(int row, char* out) {
  const size_t width = machine_.shape.latent_size;
  int64_t* total = SumsRow(0, row);
  for (int worker = 1; worker < machine_.num_threads; ++worker) {
    if (!touched_[worker * plan_.row_tokens.size() + row]) continue;
    const int64_t* sums = SumsRow(worker, row);
    for (size_t i = 0; i < width; ++i) total[i] += sums[i];
  }
  std::memcpy(out, total, width * sizeof(int64_t));
}

void LayerRun::AddRow(int row, char* out) const {
  const size_t width = machine_.shape.latent_size;
  for (int worker = 0; worker < machine_.num_threads; ++worker) {
    const size_t index = worker * plan_.row_tokens.size() + row;
    if (!touched_[index]) continue;
    const int64_t* const sums = workspace_.sums.as<int64_t>() + index * width;
    for (size_t i = 0; i < width; ++i) {
      int64_t total = 0;
      std::memcpy(&total, out + i * sizeof(total), sizeof(total));
      total += sums[i];
      std::memcpy(out + i * sizeof(total), &total, sizeof(total));
    }
  }
}

void LayerRun::Stop(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  stop_ = true;
}

absl::Status LayerRun::status() const {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
  }
  if (!error_.any()) return absl::OkStatus();
  const LowestError::Place place = error_.place();
  return absl::OutOfRangeError(
      fmt::format("layer {} expert {} slice {} token {}: {}", work_.layer(),
                  place.expert, place.slice, place.token, Reason(place.kind)));
}

}  // namespace deltafin
