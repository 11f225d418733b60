#include "expert_node/storage/released_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// Order of ExpertTensors, which is the released one.
enum PartIndex {
  kGatePacked,
  kGateScale,
  kDownPacked,
  kDownScale,
  kUpPacked,
  kUpScale
};

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
                         std::string_view path) {
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

absl::Status ReleasedRun::Locate(const ModelSpec& spec, ExpertKey key,
                                 SliceRun run, Find find) {
  shape_ = spec.expert_shape();
  run_ = run;
  const uint64_t first_row = uint64_t{kSliceColumns} * run.first;
  const uint64_t num_rows = ShapeOfRun(shape_, run).intermediate_size;
  const std::array<TensorSpec, kNumParts> tensors = ExpertTensors(spec, key);
  for (int i = 0; i < kNumParts; ++i) {
    ASSIGN_OR_RETURN(const Place place, find(tensors[i]));
    Part& part = parts_[i];
    part = {place.file, place.offset, tensors[i].bytes(), nullptr};
    if (i == kDownPacked || i == kDownScale) continue;
    const uint64_t row_bytes = tensors[i].shape[1];
    part.offset += first_row * row_bytes;
    part.bytes = num_rows * row_bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReleasedRun::Read(ReadRange read) {
  std::array<Part*, kNumParts> sorted;
  for (int i = 0; i < kNumParts; ++i) sorted[i] = &parts_[i];
  std::sort(sorted.begin(), sorted.end(), [](const Part* a, const Part* b) {
    return std::pair(a->file, a->offset) < std::pair(b->file, b->offset);
  });
  uint64_t bytes_read = 0;
  for (int begin = 0; begin < kNumParts;) {
    const Part& first = *sorted[begin];
    uint64_t bytes = first.bytes;
    int end = begin + 1;
    while (end < kNumParts && sorted[end]->file == first.file &&
           sorted[end]->offset == first.offset + bytes) {
      bytes += sorted[end++]->bytes;
    }
    ASSIGN_OR_RETURN(const std::span<const uint8_t> span,
                     read(first.file, first.offset, bytes, buffers_[begin]));
    for (int i = begin; i < end; ++i) {
      sorted[i]->data = span.data() + (sorted[i]->offset - first.offset);
    }
    bytes_read += bytes;
    begin = end;
  }
  return bytes_read;
}

// Replaces the whole down matrix by the columns of the run.
absl::Status ReleasedRun::GatherDown(ReleasedExpert& released) {
  const ExpertShape part = ShapeOfRun(shape_, run_);
  if (part == shape_) return absl::OkStatus();
  const int rows = shape_.latent_size;
  const size_t packed_width = part.intermediate_size / 2;
  const size_t scale_width = part.intermediate_size / kMxfp4Group;
  const size_t bytes = rows * (packed_width + scale_width);
  if (down_.size() < bytes) {
    ASSIGN_OR_RETURN(down_, AlignedBuffer::Allocate(bytes));
  }
  const size_t first_column = size_t{kSliceColumns} * run_.first;
  uint8_t* const scales = down_.data() + rows * packed_width;
  CopyColumns(released.down_packed, rows, shape_.intermediate_size / 2,
              first_column / 2, packed_width, down_.data());
  CopyColumns(released.down_scale, rows, shape_.intermediate_size / kMxfp4Group,
              first_column / kMxfp4Group, scale_width, scales);
  released.down_packed = down_.data();
  released.down_scale = scales;
  return absl::OkStatus();
}

absl::Status ReleasedRun::Pack(std::string_view path,
                               std::span<uint8_t* const> out,
                               absl::FunctionRef<void(int slice)> ready) {
  ReleasedExpert released = {parts_[kGatePacked].data, parts_[kGateScale].data,
                             parts_[kUpPacked].data,   parts_[kUpScale].data,
                             parts_[kDownPacked].data, parts_[kDownScale].data};
  RETURN_IF_ERROR(GatherDown(released));
  const ExpertShape run_shape = ShapeOfRun(shape_, run_);
  RETURN_IF_ERROR(CheckScales(run_shape, run_, released, path));
  for (int i = 0; i < run_.count; ++i) {
    PackSlices(run_shape, released, {i, 1}, out[i]);
    ready(run_.first + i);
  }
  return absl::OkStatus();
}

}  // namespace deltafin
