#include "expert_node/storage/staged_source.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

uint64_t MaskOf(SliceRun run) {
  return ((uint64_t{2} << (run.count - 1)) - 1) << run.first;
}

}  // namespace

// What waits, without the way to the source.
class StagedSource::Staged : public ExpertStore {
 public:
  explicit Staged(StagedSource& all) : all_(all) {}

  const ExpertShape& shape() const override { return all_.shape(); }
  bool IsNear(ExpertKey key, SliceRun run) const override {
    return all_.IsNear(key, run);
  }
  uint64_t HeldMask(ExpertKey key) const override { return all_.HeldMask(key); }
  uint64_t held_version() const override { return all_.held_version(); }
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    if (!all_.TryTake(key, run, out)) {
      return absl::NotFoundError(
          fmt::format("layer {} expert {} slices {}+{} are not here", key.layer,
                      key.expert, run.first, run.count));
    }
    for (int i = 0; i < run.count; ++i) ready(run.first + i);
    return 0;
  }

 private:
  StagedSource& all_;
};

StagedSource::StagedSource(std::unique_ptr<ExpertStore> source,
                           uint64_t capacity_bytes, Given given)
    : source_(std::move(source)),
      capacity_bytes_(capacity_bytes),
      given_(given),
      staged_(std::make_unique<Staged>(*this)) {}

StagedSource::~StagedSource() = default;

bool StagedSource::IsNear(ExpertKey key, SliceRun run) const {
  return (MaskOf(run) & ~HeldMask(key)) == 0;
}

uint64_t StagedSource::HeldMask(ExpertKey key) const {
  MutexLock lock(mutex_);
  const auto found = waiting_.find(key);
  return found == waiting_.end() ? 0 : found->second.mask;
}

uint64_t StagedSource::held_version() const {
  MutexLock lock(mutex_);
  return version_;
}

StagedSourceStats StagedSource::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

absl::StatusOr<uint64_t> StagedSource::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    while (fetching_.contains(key)) fetched_.Wait(mutex_);
    fetching_.insert(key);
  }
  absl::Status status;
  if (!TryTake(key, run, out)) {
    absl::StatusOr<uint64_t> fetched = Fetch(key, run, out);
    status = fetched.status();
    if (fetched.ok()) bytes = *fetched;
  }
  {
    MutexLock lock(mutex_);
    fetching_.erase(key);
    fetched_.NotifyAll();
  }
  RETURN_IF_ERROR(status);
  for (int i = 0; i < run.count; ++i) ready(run.first + i);
  return bytes;
}

bool StagedSource::TryTake(ExpertKey key, SliceRun run,
                           std::span<uint8_t* const> out) {
  std::shared_ptr<const AlignedBuffer> record;
  {
    MutexLock lock(mutex_);
    const auto found = waiting_.find(key);
    const uint64_t wanted = MaskOf(run);
    if (found == waiting_.end() || (wanted & ~found->second.mask) != 0) {
      return false;
    }
    record = found->second.record;
    if (given_ == Given::kForgotten) {
      found->second.mask &= ~wanted;
      ++version_;
      if (found->second.mask == 0) Forget(key);
    }
  }
  CopyOut(*record, run, out);
  return true;
}

absl::StatusOr<uint64_t> StagedSource::Fetch(ExpertKey key, SliceRun run,
                                             std::span<uint8_t* const> out) {
  ASSIGN_OR_RETURN(AlignedBuffer buffer,
                   AlignedBuffer::Allocate(shape().payload_bytes()));
  auto record = std::make_shared<AlignedBuffer>(std::move(buffer));
  const SliceRun all = {0, shape().num_slices()};
  std::vector<uint8_t*> slices;
  for (int i = 0; i < all.count; ++i) {
    slices.push_back(record->data() + shape().slice_offset(i));
  }
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   source_->Read(key, all, slices, [](int) {}));
  CopyOut(*record, run, out);
  MutexLock lock(mutex_);
  ++stats_.fetches;
  stats_.bytes_fetched += bytes;
  const uint64_t given = given_ == Given::kForgotten ? MaskOf(run) : 0;
  const uint64_t rest = MaskOf(all) & ~given;
  if (rest != 0) Stage(key, std::move(record), rest);
  return bytes;
}

void StagedSource::Stage(ExpertKey key,
                         std::shared_ptr<const AlignedBuffer> record,
                         uint64_t mask) {
  Forget(key);
  stats_.staged_bytes += record->size();
  waiting_[key] = {std::move(record), mask};
  oldest_.push_back(key);
  ++version_;
  while (stats_.staged_bytes > capacity_bytes_ && oldest_.size() > 1) {
    const ExpertKey old = oldest_.front();
    stats_.slices_discarded += std::popcount(waiting_[old].mask);
    Forget(old);
  }
}

void StagedSource::Forget(ExpertKey key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  stats_.staged_bytes -= found->second.record->size();
  waiting_.erase(found);
  oldest_.erase(std::ranges::find(oldest_, key));
  ++version_;
}

void StagedSource::CopyOut(const AlignedBuffer& record, SliceRun run,
                           std::span<uint8_t* const> out) const {
  for (int i = 0; i < run.count; ++i) {
    const size_t begin = shape().slice_offset(run.first + i);
    std::memcpy(out[i], record.data() + begin,
                shape().slice_offset(run.first + i + 1) - begin);
  }
}

}  // namespace deltafin
