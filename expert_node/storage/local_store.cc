#include "expert_node/storage/local_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/aligned_buffer.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "kernels/expert_tiles.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Order of ExpertTensors, which is the released one.
enum Part {
  kGatePacked,
  kGateScale,
  kDownPacked,
  kDownScale,
  kUpPacked,
  kUpScale
};
constexpr int kNumParts = 6;

// A run of slices is itself an expert, of fewer intermediate columns: slices
// are cut at the same places, and the last one may be short.
ExpertShape ShapeOfRun(const ExpertShape& shape, SliceRun run) {
  const int begin = run.first * kSliceColumns;
  const int end = std::min((run.first + run.count) * kSliceColumns,
                           shape.intermediate_size);
  return {shape.latent_size, end - begin};
}

// Copies `width` bytes at `offset` of each row of `row_bytes` to `out`.
void CopyColumns(const uint8_t* rows, int num_rows, size_t row_bytes,
                 size_t offset, size_t width, uint8_t* out) {
  for (int row = 0; row < num_rows; ++row) {
    std::memcpy(out + row * width, rows + row * row_bytes + offset, width);
  }
}

absl::Status CheckScales(const ExpertShape& run_shape, SliceRun run,
                         const ReleasedExpert& released,
                         const std::string& path) {
  const NanScale nan = FindNanScale(run_shape, released);
  if (!nan.found) return absl::OkStatus();
  const bool down = nan.matrix == '2';
  const int row = nan.row + (down ? 0 : run.first * kSliceColumns);
  const int group =
      nan.group + (down ? run.first * kSliceColumns / kMxfp4Group : 0);
  return absl::DataLossError(fmt::format(
      "{}: w{}.weight_scale has the byte 255 (NaN) at row {}, group {}: the "
      "file is damaged, fetch it again",
      path, nan.matrix, row, group));
}

}  // namespace

// Bytes of one tensor that a run needs.
struct LocalStore::Piece {
  const SafetensorsFile* file = nullptr;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
  const uint8_t* data = nullptr;  // once read
};

struct LocalStore::Scratch {
  std::array<AlignedBuffer, kNumParts> spans;
  AlignedBuffer down;  // down columns of a partial run, packed then scales

  absl::Status GatherDown(const ExpertShape& shape, SliceRun run,
                          ReleasedExpert& released);
};

// Replaces the whole down matrix by the columns of the run.
absl::Status LocalStore::Scratch::GatherDown(const ExpertShape& shape,
                                             SliceRun run,
                                             ReleasedExpert& released) {
  const ExpertShape part = ShapeOfRun(shape, run);
  if (part == shape) return absl::OkStatus();
  const int rows = shape.latent_size;
  const size_t packed_width = part.intermediate_size / 2;
  const size_t scale_width = part.intermediate_size / kMxfp4Group;
  const size_t bytes = rows * (packed_width + scale_width);
  if (down.size() < bytes) {
    ASSIGN_OR_RETURN(down, AlignedBuffer::Allocate(bytes));
  }
  const size_t first_column = size_t{kSliceColumns} * run.first;
  uint8_t* const scales = down.data() + rows * packed_width;
  CopyColumns(released.down_packed, rows, shape.intermediate_size / 2,
              first_column / 2, packed_width, down.data());
  CopyColumns(released.down_scale, rows, shape.intermediate_size / kMxfp4Group,
              first_column / kMxfp4Group, scale_width, scales);
  released.down_packed = down.data();
  released.down_scale = scales;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::Open(
    const std::string& model_dir, const ModelSpec& spec, ReadRateMeter* meter) {
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(model_dir));
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
      ASSIGN_OR_RETURN(const std::vector<Piece> pieces,
                       Locate({layer, expert}, {0, shape_.num_slices()}));
      for (const Piece& piece : pieces) {
        std::unique_ptr<DirectReader>& reader = readers_[piece.file];
        if (reader != nullptr) continue;
        ASSIGN_OR_RETURN(reader, DirectReader::Open(piece.file->path()));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LocalStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  std::unique_ptr<Scratch> scratch = TakeScratch();
  absl::StatusOr<uint64_t> result = ReadChecked(key, run, out, ready, *scratch);
  {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(scratch));
  }
  if (result.ok()) return result;
  return AddContext(result.status(),
                    fmt::format("layer {} expert {}", key.layer, key.expert));
}

absl::StatusOr<uint64_t> LocalStore::ReadChecked(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int)> ready, Scratch& scratch) {
  ASSIGN_OR_RETURN(std::vector<Piece> pieces, Locate(key, run));
  const std::string& path = pieces[kGateScale].file->path();
  ASSIGN_OR_RETURN(const uint64_t bytes_read, ReadPieces(pieces, scratch));
  ReleasedExpert released = {pieces[kGatePacked].data, pieces[kGateScale].data,
                             pieces[kUpPacked].data,   pieces[kUpScale].data,
                             pieces[kDownPacked].data, pieces[kDownScale].data};
  RETURN_IF_ERROR(scratch.GatherDown(shape_, run, released));
  const ExpertShape run_shape = ShapeOfRun(shape_, run);
  RETURN_IF_ERROR(CheckScales(run_shape, run, released, path));
  for (int i = 0; i < run.count; ++i) {
    PackSlices(run_shape, released, {i, 1}, out[i]);
    ready(run.first + i);
  }
  return bytes_read;
}

absl::StatusOr<std::vector<LocalStore::Piece>> LocalStore::Locate(
    ExpertKey key, SliceRun run) const {
  const uint64_t first_row = uint64_t{kSliceColumns} * run.first;
  const uint64_t num_rows = ShapeOfRun(shape_, run).intermediate_size;
  std::vector<Piece> pieces;
  for (const TensorSpec& tensor : ExpertTensors(spec_, key)) {
    ASSIGN_OR_RETURN(
        const TensorLocation found,
        checkpoint_->Find(tensor.name, tensor.dtype, tensor.shape));
    Piece piece{found.file, found.info->offset, found.info->bytes, nullptr};
    const Part part = static_cast<Part>(pieces.size());
    if (part != kDownPacked && part != kDownScale) {
      const uint64_t row_bytes = tensor.shape[1];
      piece.offset += first_row * row_bytes;
      piece.bytes = num_rows * row_bytes;
    }
    pieces.push_back(piece);
  }
  return pieces;
}

absl::StatusOr<uint64_t> LocalStore::ReadPieces(std::span<Piece> pieces,
                                                Scratch& scratch) const {
  std::array<Piece*, kNumParts> sorted;
  for (int i = 0; i < kNumParts; ++i) sorted[i] = &pieces[i];
  std::sort(sorted.begin(), sorted.end(), [](const Piece* a, const Piece* b) {
    return std::pair(a->file, a->offset) < std::pair(b->file, b->offset);
  });
  uint64_t bytes_read = 0;
  for (int begin = 0; begin < kNumParts;) {
    const Piece& first = *sorted[begin];
    uint64_t bytes = first.bytes;
    int end = begin + 1;
    while (end < kNumParts && sorted[end]->file == first.file &&
           sorted[end]->offset == first.offset + bytes) {
      bytes += sorted[end++]->bytes;
    }
    ASSIGN_OR_RETURN(const std::span<const uint8_t> span,
                     ReadSpan(first, bytes, scratch.spans[begin]));
    for (int i = begin; i < end; ++i) {
      sorted[i]->data = span.data() + (sorted[i]->offset - first.offset);
    }
    bytes_read += bytes;
    begin = end;
  }
  return bytes_read;
}

absl::StatusOr<std::span<const uint8_t>> LocalStore::ReadSpan(
    const Piece& first, uint64_t bytes, AlignedBuffer& buffer) const {
  const DirectReader& reader = *readers_.at(first.file);
  if (meter_ == nullptr) return reader.Read(first.offset, bytes, buffer);
  const ReadRateMeter::Reading reading = meter_->Begin();
  auto span = reader.Read(first.offset, bytes, buffer);
  meter_->End(reading, span.ok() ? bytes : 0);
  return span;
}

std::unique_ptr<LocalStore::Scratch> LocalStore::TakeScratch() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(idle_.back());
  idle_.pop_back();
  return scratch;
}

}  // namespace deltafin
