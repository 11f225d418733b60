#include "expert_node/storage/layer_records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/slice_check.h"
#include "expert_node/storage/throttled_store.h"

namespace deltafin {
namespace {

// Slices are read together until they reach this: four of the full model where
// nobody else waits for the drive, else an expert. Source: bench/storage_tiers,
// docs/performance.md.
constexpr size_t kShortReadBytes = size_t{5} << 20;
constexpr size_t kLongReadBytes = size_t{16} << 20;

// An index with more dead entries than this, and than live ones, is rewritten
// when it is opened.
constexpr size_t kMaxDeadEntries = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<LayerRecords>> LayerRecords::Open(
    const std::string& folder, const RecordIndexHeader& header,
    RecordShared& shared) {
  std::vector<RecordEntry> entries;
  ASSIGN_OR_RETURN(RecordIndex index,
                   RecordIndex::Open(fmt::format("{}/layer-{:02d}.index",
                                                 folder, header.layer),
                                     header, entries));
  std::unique_ptr<LayerRecords> layer(
      new LayerRecords(folder, header, std::move(index), shared));
  layer->Replay(entries);
  RETURN_IF_ERROR(layer->OpenData());
  layer->Compact(entries.size());
  return layer;
}

LayerRecords::LayerRecords(const std::string& folder, RecordIndexHeader header,
                           RecordIndex index, RecordShared& shared)
    : data_path_(fmt::format("{}/layer-{:02d}.experts", folder, header.layer)),
      header_(std::move(header)),
      shared_(shared),
      index_(std::move(index)),
      experts_(header_.num_experts) {
  shared_.damaged_entries += index_.num_damaged();
}

void LayerRecords::Replay(const std::vector<RecordEntry>& entries) {
  MutexLock lock(mutex_);
  for (const RecordEntry& entry : entries) Apply(entry);
}

void LayerRecords::Apply(const RecordEntry& entry) {
  Expert& expert = experts_[entry.expert];
  const uint64_t mask = MaskOf(entry.run);
  if (entry.kind == RecordEntry::Kind::kRemoved) {
    ChangeHeld(expert, expert.held & ~mask);
    ++expert.removals;
    return;
  }
  expert.digests.resize(header_.shape.num_slices());
  std::copy(entry.digests.begin(), entry.digests.end(),
            expert.digests.begin() + entry.run.first);
  if (entry.identity) expert.identity = entry.identity;
  ChangeHeld(expert, expert.held | mask);
}

// Unsigned sums: what shrinks wraps around to the right value.
void LayerRecords::ChangeHeld(Expert& expert, uint64_t held) {
  const uint64_t all = MaskOf({0, header_.shape.num_slices()});
  const auto count = [](bool yes) { return static_cast<uint64_t>(yes); };
  shared_.held_slices +=
      uint64_t(std::popcount(held)) - uint64_t(std::popcount(expert.held));
  shared_.held_experts += count(held != 0) - count(expert.held != 0);
  shared_.complete_experts += count(held == all) - count(expert.held == all);
  if (held != expert.held) ++shared_.held_version;
  expert.held = held;
  if (held == 0) expert.identity.reset();
}

absl::Status LayerRecords::OpenData() {
  uint64_t held_bytes = 0;
  MutexLock lock(mutex_);
  for (const Expert& expert : experts_) held_bytes += BytesOf(expert.held);
  if (held_bytes == 0) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<RecordFile>> data =
      RecordFile::Open(data_path_, RecordFile::Missing::kRefuse);
  if (absl::IsNotFound(data.status())) {
    spdlog::warn("{} is gone: what its index names counts as missing",
                 data_path_);
    for (Expert& expert : experts_) ChangeHeld(expert, 0);
    return absl::OkStatus();
  }
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  shared_.room.Found(held_bytes);
  return absl::OkStatus();
}

// An index that cannot be rewritten serves as it is.
void LayerRecords::Compact(size_t num_entries) {
  std::vector<RecordEntry> live;
  MutexLock index_lock(index_mutex_);
  {
    MutexLock lock(mutex_);
    for (int e = 0; e < header_.num_experts; ++e) {
      const Expert& expert = experts_[e];
      for (const SliceRun run : RunsOf(expert.held)) {
        const auto first = expert.digests.begin() + run.first;
        live.push_back({RecordEntry::Kind::kStored,
                        e,
                        run,
                        expert.identity,
                        {first, first + run.count}});
      }
    }
  }
  const size_t dead = num_entries - std::min(num_entries, live.size());
  const bool wanted = index_.num_damaged() > 0 ||
                      (live.empty() && num_entries > 0) ||
                      dead > std::max(kMaxDeadEntries, live.size());
  if (!wanted) return;
  const absl::Status status = index_.Rewrite(live);
  if (!status.ok())
    spdlog::warn("cannot compact an index: {}", status.ToString());
}

int LayerRecords::SlicesPerRead(const ExpertShape& shape) {
  const size_t slice_bytes = shape.slice_offset(1);
  return static_cast<int>((kShortReadBytes + slice_bytes - 1) / slice_bytes);
}

SliceRun LayerRecords::NextRead(const ExpertShape& shape, SliceRun left,
                                bool others_wait) {
  const size_t enough = others_wait ? kLongReadBytes : kShortReadBytes;
  const size_t begin = shape.slice_offset(left.first);
  int count = 1;
  while (count < left.count &&
         shape.slice_offset(left.first + count) - begin < enough) {
    ++count;
  }
  return {left.first, count};
}

std::vector<SliceRun> LayerRecords::RunsOf(uint64_t mask) {
  std::vector<SliceRun> runs;
  for (int slice = 0; slice < kMaxRecordSlices && mask >> slice != 0;) {
    slice += std::countr_zero(mask >> slice);
    const int count = std::countr_one(mask >> slice);
    runs.push_back({slice, count});
    slice += count;
  }
  return runs;
}

uint64_t LayerRecords::BytesOf(uint64_t mask) const {
  uint64_t bytes = 0;
  for (const SliceRun run : RunsOf(mask)) bytes += BytesOf(run);
  return bytes;
}

uint64_t LayerRecords::EndOf(int expert, SliceRun run) const {
  const int end = run.first + run.count;
  return end == header_.shape.num_slices()
             ? RecordOffset(expert) + header_.shape.stride_bytes()
             : OffsetOf(expert, end);
}

std::string LayerRecords::NameOf(int expert, SliceRun run) const {
  return fmt::format("layer {} expert {} slices {}..{}: {} at offset {}",
                     header_.layer, expert, run.first,
                     run.first + run.count - 1, data_path_,
                     OffsetOf(expert, run.first));
}

uint64_t LayerRecords::HeldMask(int expert) const {
  MutexLock lock(mutex_);
  return experts_[expert].held;
}

std::optional<Sha256Bytes> LayerRecords::Identity(int expert) const {
  MutexLock lock(mutex_);
  return experts_[expert].identity;
}

absl::StatusOr<LayerRecords::Held> LayerRecords::BeginRead(int expert,
                                                           SliceRun run) {
  MutexLock lock(mutex_);
  const Expert& record = experts_[expert];
  const uint64_t wanted = MaskOf(run);
  if ((record.held & wanted) != wanted) {
    return absl::NotFoundError(NameOf(expert, run) + ": not held");
  }
  const auto first = record.digests.begin() + run.first;
  return Held{{first, first + run.count}, record.removals, data_.get()};
}

absl::StatusOr<uint64_t> LayerRecords::Read(
    int expert, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  ASSIGN_OR_RETURN(const Held held, BeginRead(expert, run));
  bool one_by_one = false;
  for (int begin = 0; begin < run.count;) {
    DriveTurns::Turn turn = shared_.turns.Take();
    const SliceRun left = {run.first + begin,
                           one_by_one ? 1 : run.count - begin};
    const SliceRun piece =
        NextRead(header_.shape, left, shared_.turns.num_waiting() > 0);
    const absl::Status read =
        ReadSlices(std::move(turn), *held.data, expert, piece,
                   out.subspan(begin, piece.count));
    if (absl::IsDataLoss(read) && piece.count > 1) {
      one_by_one = true;  // to tell the bad slice from the others
      continue;
    }
    if (absl::IsDataLoss(read)) return Drop(expert, piece, held.removals, read);
    RETURN_IF_ERROR(AddContext(read, NameOf(expert, piece)));
    for (int i = begin; i < begin + piece.count; ++i) {
      const int slice = run.first + i;
      const absl::Status good =
          CheckSlice(header_.shape, slice, out[i], held.digests[i]);
      if (!good.ok()) return Drop(expert, {slice, 1}, held.removals, good);
      ready(slice);
    }
    begin += piece.count;
  }
  return BytesOf(run);
}

void LayerRecords::Throttle(uint64_t bytes) {
  if (shared_.throttle != nullptr) shared_.throttle->Move(bytes);
}

template <typename Out>
absl::Status LayerRecords::ReadFrom(DriveTurns::Turn /*turn*/, RecordFile& data,
                                    uint64_t offset, Out out, uint64_t bytes) {
  shared_.bytes_read += bytes;
  Throttle(bytes);
  if (shared_.meter == nullptr) return data.Read(offset, out);
  const ReadRateMeter::Reading reading = shared_.meter->Begin();
  const absl::Status status = data.Read(offset, out);
  shared_.meter->End(reading, status.ok() ? bytes : 0);
  return status;
}

absl::Status LayerRecords::ReadSlices(DriveTurns::Turn turn, RecordFile& data,
                                      int expert, SliceRun run,
                                      std::span<uint8_t* const> out) {
  const uint64_t offset = OffsetOf(expert, run.first);
  std::vector<std::span<uint8_t>> parts;
  bool in_place = offset % RecordFile::kPageBytes == 0;
  for (int i = 0; i < run.count; ++i) {
    parts.emplace_back(out[i], BytesOf(SliceRun{run.first + i, 1}));
    in_place = in_place && RecordFile::OnPage(out[i]) &&
               parts.back().size() % RecordFile::kPageBytes == 0;
  }
  if (in_place) {
    return ReadFrom(std::move(turn), data, offset, std::span(parts),
                    BytesOf(run));
  }
  const uint64_t begin = RecordFile::PagesDown(offset);
  const uint64_t bytes = RecordFile::PagesUp(offset + BytesOf(run)) - begin;
  ASSIGN_OR_RETURN(BufferPool::Lease buffer, shared_.buffers.Take(bytes));
  RETURN_IF_ERROR(ReadFrom(std::move(turn), data, begin,
                           std::span(buffer.data(), bytes), bytes));
  const uint8_t* from = buffer.data() + (offset - begin);
  for (const std::span<uint8_t> part : parts) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  return absl::OkStatus();
}

}  // namespace deltafin
