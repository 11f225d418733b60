#include "expert_node/storage/local_store.h"

#include <utility>

#include "common/base/aligned_buffer.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::Open(
    const std::string& model_dir, const ModelSpec& spec, ReadRateMeter* meter) {
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(model_dir));
  if (!checkpoint->has_experts()) {
    return absl::InvalidArgumentError(
        model_dir + " is an installed model, no directory of released shards");
  }
  RETURN_IF_ERROR(ValidateCheckpoint(spec, *checkpoint));
  std::unique_ptr<LocalStore> store(
      new LocalStore(spec, std::move(checkpoint), meter));
  RETURN_IF_ERROR(store->OpenReaders());
  return store;
}

LocalStore::LocalStore(const ModelSpec& spec,
                       std::unique_ptr<Checkpoint> checkpoint,
                       ReadRateMeter* meter)
    : spec_(spec),
      shape_(spec.expert_shape()),
      checkpoint_(std::move(checkpoint)),
      meter_(meter) {}

LocalStore::~LocalStore() = default;

absl::Status LocalStore::OpenReaders() {
  for (int layer = 0; layer < spec_.num_hidden_layers; ++layer) {
    if (!spec_.is_moe(layer)) continue;
    for (int expert = 0; expert < spec_.num_experts; ++expert) {
      for (const TensorSpec& tensor : ExpertTensors(spec_, {layer, expert})) {
        ASSIGN_OR_RETURN(
            const TensorLocation found,
            checkpoint_->Find(tensor.name, tensor.dtype, tensor.shape));
        const auto [entry, is_new] =
            reader_of_.try_emplace(found.file, readers_.size());
        if (!is_new) continue;
        ASSIGN_OR_RETURN(readers_.emplace_back(),
                         DirectReader::Open(found.file->path()));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LocalStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  std::unique_ptr<ReleasedRun> released = TakeIdle();
  absl::StatusOr<uint64_t> result =
      ReadChecked(key, run, out, ready, *released);
  {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(released));
  }
  if (result.ok()) return result;
  return AddContext(result.status(),
                    fmt::format("layer {} expert {}", key.layer, key.expert));
}

absl::StatusOr<uint64_t> LocalStore::ReadChecked(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int)> ready, ReleasedRun& released) const {
  RETURN_IF_ERROR(released.Locate(
      spec_, key, run,
      [&](const TensorSpec& tensor) -> absl::StatusOr<ReleasedRun::Place> {
        ASSIGN_OR_RETURN(
            const TensorLocation found,
            checkpoint_->Find(tensor.name, tensor.dtype, tensor.shape));
        return ReleasedRun::Place{reader_of_.at(found.file),
                                  found.info->offset};
      }));
  ASSIGN_OR_RETURN(const uint64_t bytes_read,
                   released.Read([&](size_t file, uint64_t offset,
                                     uint64_t bytes, AlignedBuffer& buffer) {
                     return ReadSpan(*readers_[file], offset, bytes, buffer);
                   }));
  RETURN_IF_ERROR(released.Pack(readers_[released.file()]->path(), out, ready));
  return bytes_read;
}

absl::StatusOr<std::span<const uint8_t>> LocalStore::ReadSpan(
    const DirectReader& reader, uint64_t offset, uint64_t bytes,
    AlignedBuffer& buffer) const {
  if (meter_ == nullptr) return reader.Read(offset, bytes, buffer);
  const ReadRateMeter::Reading reading = meter_->Begin();
  auto span = reader.Read(offset, bytes, buffer);
  meter_->End(reading, span.ok() ? bytes : 0);
  return span;
}

std::unique_ptr<ReleasedRun> LocalStore::TakeIdle() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<ReleasedRun>();
  std::unique_ptr<ReleasedRun> released = std::move(idle_.back());
  idle_.pop_back();
  return released;
}

}  // namespace deltafin
