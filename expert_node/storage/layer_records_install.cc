// What changes the records of a layer: install, remove, drop.
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/layer_records.h"
#include "kernels/expert_tiles.h"

namespace deltafin {

class LayerRecords::Writing {
 public:
  Writing(LayerRecords& layer, int expert) : layer_(layer), expert_(expert) {
    MutexLock lock(layer_.mutex_);
    while (!layer_.writing_.insert(expert_).second) {
      layer_.writing_ended_.Wait(layer_.mutex_);
    }
  }
  ~Writing() {
    MutexLock lock(layer_.mutex_);
    layer_.writing_.erase(expert_);
    layer_.writing_ended_.NotifyAll();
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  LayerRecords& layer_;
  const int expert_;
};

absl::Status LayerRecords::Install(int expert, SliceRun run,
                                   std::span<const uint8_t* const> slices,
                                   const std::optional<Sha256Bytes>& identity) {
  const Writing writing(*this, expert);
  const uint64_t missing = MaskOf(run) & ~HeldMask(expert);
  for (const SliceRun part : RunsOf(missing)) {
    RETURN_IF_ERROR(AddContext(
        InstallMissing(expert, part,
                       slices.subspan(part.first - run.first, part.count),
                       identity),
        NameOf(expert, part)));
  }
  return absl::OkStatus();
}

absl::Status LayerRecords::InstallMissing(
    int expert, SliceRun run, std::span<const uint8_t* const> slices,
    const std::optional<Sha256Bytes>& identity) {
  RecordEntry entry = {RecordEntry::Kind::kStored, expert, run, identity, {}};
  for (int i = 0; i < run.count; ++i) {
    const int slice = run.first + i;
    const ptrdiff_t nan = FindNanScaleInSlice(header_.shape, slice, slices[i]);
    if (nan >= 0) {
      return absl::DataLossError(
          fmt::format("scale byte 255 (NaN) at byte {} of slice {}: not stored",
                      nan, slice));
    }
    entry.digests.push_back(
        Xxh3Digest({slices[i], BytesOf(SliceRun{slice, 1})}));
  }
  const uint64_t bytes = BytesOf(run);
  RETURN_IF_ERROR(shared_.room.Take(bytes));
  absl::Status status = WriteSlices(expert, run, slices);
  shared_.room.Written(bytes);
  if (status.ok()) {
    MutexLock index_lock(index_mutex_);
    status = index_.Append(entry);
  }
  if (!status.ok()) {
    shared_.room.GiveBack(bytes);
    PunchHole(expert, run);
    return status;
  }
  shared_.bytes_installed += bytes;
  MutexLock lock(mutex_);
  Apply(entry);
  return absl::OkStatus();
}

absl::StatusOr<RecordFile*> LayerRecords::DataForWriting() {
  MutexLock index_lock(index_mutex_);  // one thread makes the file
  {
    MutexLock lock(mutex_);
    if (data_ != nullptr) return data_.get();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> data,
                   RecordFile::Open(data_path_, RecordFile::Missing::kMake));
  MutexLock lock(mutex_);
  data_ = std::move(data);
  return data_.get();
}

// Whole pages: what they hold of the slices beside the run is written back as
// it was.
absl::Status LayerRecords::WriteSlices(int expert, SliceRun run,
                                       std::span<const uint8_t* const> slices) {
  constexpr uint64_t kPage = RecordFile::kPageBytes;
  ASSIGN_OR_RETURN(RecordFile* const data, DataForWriting());
  const uint64_t offset = OffsetOf(expert, run.first);
  const uint64_t run_end = EndOf(expert, run);
  const uint64_t begin = RecordFile::PagesDown(offset);
  const uint64_t end = RecordFile::PagesUp(run_end);
  ASSIGN_OR_RETURN(BufferPool::Lease buffer, shared_.buffers.Take(end - begin));
  uint8_t* const pages = buffer.data();
  if (offset != begin) {
    RETURN_IF_ERROR(data->ReadOrZeros(begin, {pages, kPage}));
  }
  if (run_end != end) {
    RETURN_IF_ERROR(
        data->ReadOrZeros(end - kPage, {pages + (end - kPage - begin), kPage}));
  }
  uint8_t* to = pages + (offset - begin);
  for (int i = 0; i < run.count; ++i) {
    const size_t bytes = BytesOf(SliceRun{run.first + i, 1});
    std::memcpy(to, slices[i], bytes);
    to += bytes;
  }
  std::memset(to, 0, pages + (run_end - begin) - to);
  Throttle(end - begin);
  RETURN_IF_ERROR(data->Write(begin, {pages, end - begin}));
  return data->Sync();
}

void LayerRecords::PunchHole(int expert, SliceRun run) {
  RecordFile* data = nullptr;
  {
    MutexLock lock(mutex_);
    data = data_.get();
  }
  if (data == nullptr) return;
  data->PunchHole(OffsetOf(expert, run.first), EndOf(expert, run));
}

absl::Status LayerRecords::Remove(int expert, SliceRun run) {
  const Writing writing(*this, expert);
  return AddContext(Forget(expert, MaskOf(run)), NameOf(expert, run));
}

absl::Status LayerRecords::Forget(int expert, uint64_t mask) {
  {
    MutexLock lock(mutex_);
    Expert& record = experts_[expert];
    mask &= record.held;
    if (mask == 0) return absl::OkStatus();
    ChangeHeld(record, record.held & ~mask);
    ++record.removals;
  }
  shared_.room.GiveBack(BytesOf(mask));
  absl::Status status;
  for (const SliceRun run : RunsOf(mask)) {
    {
      MutexLock index_lock(index_mutex_);
      status.Update(index_.Append(
          {RecordEntry::Kind::kRemoved, expert, run, std::nullopt, {}}));
    }
    PunchHole(expert, run);
  }
  return status;
}

absl::Status LayerRecords::Drop(int expert, SliceRun run, uint64_t removals,
                                const absl::Status& why) {
  const Writing writing(*this, expert);
  {
    MutexLock lock(mutex_);
    if (experts_[expert].removals != removals) {
      return absl::NotFoundError(NameOf(expert, run) +
                                 ": removed while it was read");
    }
  }
  shared_.corrupt_slices += run.count;
  const absl::Status verdict = AddContext(why, NameOf(expert, run));
  spdlog::warn("{}; this copy is dropped", verdict.ToString());
  const absl::Status forgotten = Forget(expert, MaskOf(run));
  if (!forgotten.ok()) {
    spdlog::warn("{}: cannot note that it was dropped: {}", NameOf(expert, run),
                 forgotten.ToString());
  }
  return verdict;
}

}  // namespace deltafin
