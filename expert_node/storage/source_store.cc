#include "expert_node/storage/source_store.h"

#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {

SourceStore::SourceStore(const ModelSpec& spec, ExpertSourceOpener open)
    : spec_(spec), shape_(spec.expert_shape()), open_(std::move(open)) {}

SourceStore::~SourceStore() = default;

absl::StatusOr<uint64_t> SourceStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  const std::string context =
      fmt::format("layer {} expert {}", key.layer, key.expert);
  const absl::StatusOr<ExpertSource> source = Source();
  if (!source.ok()) return AddContext(source.status(), context);
  absl::StatusOr<uint64_t> result = ReadFrom(*source, key, run, out, ready);
  if (result.ok()) return result;
  return AddContext(result.status(), context);
}

absl::StatusOr<uint64_t> SourceStore::ReadFrom(
    const ExpertSource& from, ExpertKey key, SliceRun run,
    std::span<uint8_t* const> out, absl::FunctionRef<void(int)> ready) {
  std::unique_ptr<ReleasedRun> released = TakeIdle();
  RETURN_IF_ERROR(released->Locate(
      spec_, key, run,
      [&from](const TensorSpec& tensor) { return from.table->Find(tensor); }));
  ASSIGN_OR_RETURN(
      const uint64_t bytes_read,
      released->Read([&](size_t file, uint64_t offset, uint64_t bytes,
                         AlignedBuffer& buffer)
                         -> absl::StatusOr<std::span<const uint8_t>> {
        if (buffer.size() < bytes) {
          ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(bytes));
        }
        const std::span<uint8_t> out = buffer.bytes().first(bytes);
        RETURN_IF_ERROR(
            from.source->Read(from.table->shards()[file].name, offset, out));
        return out;
      }));
  const std::string path =
      from.source->name() + "/" + from.table->shards()[released->file()].name;
  RETURN_IF_ERROR(released->Pack(path, out, ready));
  MutexLock lock(mutex_);
  idle_.push_back(std::move(released));
  return bytes_read;
}

absl::StatusOr<ExpertSource> SourceStore::Source() {
  MutexLock lock(opening_mutex_);
  if (source_.source == nullptr) {
    ASSIGN_OR_RETURN(source_, open_());
  }
  return source_;
}

std::unique_ptr<ReleasedRun> SourceStore::TakeIdle() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<ReleasedRun>();
  std::unique_ptr<ReleasedRun> released = std::move(idle_.back());
  idle_.pop_back();
  return released;
}

}  // namespace deltafin
