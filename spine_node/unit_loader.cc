#include "spine_node/unit_loader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "spine_node/first_error.h"

namespace deltafin {
namespace {

// Reads of this size bypass the page cache: three times as fast from a cold
// NVMe disk (docs/performance.md), and what is read once evicts nothing.
constexpr uint64_t kDirectReadBytes = uint64_t{1} << 20;

int BlockRowCount(const LinearWeights& view, int block) {
  return std::min(kRowBlock, view.rows - block * kRowBlock);
}

int NumBlocks(const LinearWeights& view) {
  return (view.rows + kRowBlock - 1) / kRowBlock;
}

template <typename T>
std::span<uint8_t> AsBytes(std::vector<T>& values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// [n d, 1, 4] to [n][4][d].
void ArrangeTaps(std::span<const float> released, int head_dim, float* out) {
  const int64_t width = released.size() / 4;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t head = c / head_dim, d = c % head_dim;
    for (int j = 0; j < 4; ++j) {
      out[(head * 4 + j) * head_dim + d] = released[c * 4 + j];
    }
  }
}

// A NaN among the router's biases would choose experts without a word.
absl::Status RequireFinite(const TensorSpec& tensor,
                           const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: value {} is inf or NaN; fetch the file again",
                    tensor.name, i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadVector(const Checkpoint& checkpoint,
                                              const TensorSpec& tensor) {
  const int64_t count = tensor.bytes() / DTypeSize(tensor.dtype);
  std::vector<float> values(count);
  if (tensor.dtype == DType::kF32) {
    RETURN_IF_ERROR(checkpoint.ReadTensor(tensor.name, tensor.dtype,
                                          tensor.shape, AsBytes(values)));
    RETURN_IF_ERROR(RequireFinite(tensor, values));
    return values;
  }
  std::vector<uint16_t> released(count);
  RETURN_IF_ERROR(checkpoint.ReadTensor(tensor.name, tensor.dtype, tensor.shape,
                                        AsBytes(released)));
  for (int64_t i = 0; i < count; ++i) {
    values[i] = std::bit_cast<float>(uint32_t{released[i]} << 16);
  }
  RETURN_IF_ERROR(RequireFinite(tensor, values));
  return values;
}

}  // namespace

UnitLoader::UnitLoader(const Checkpoint& checkpoint, const KernelTarget& kernel,
                       ThreadPool& threads)
    : checkpoint_(checkpoint),
      kernel_(kernel),
      threads_(threads),
      scratch_(threads.num_threads()) {}

absl::Status UnitLoader::LoadDense(const UnitLayout& layout,
                                   WeightMemory& memory) {
  for (const VectorPlace& place : layout.vectors) {
    float* out = reinterpret_cast<float*>(memory.dense.data() + place.offset);
    RETURN_IF_ERROR(LoadVector(place, layout.kda_head_dim, out));
  }
  return PackMatrices(layout, false, memory.dense.bytes());
}

absl::Status UnitLoader::LoadRows(const UnitLayout& layout,
                                  std::span<uint8_t> rows) {
  return PackMatrices(layout, true, rows);
}

absl::Status UnitLoader::PackMatrices(const UnitLayout& layout, bool in_rows,
                                      std::span<uint8_t> memory) {
  std::vector<Block> blocks;
  for (const MatrixPlace& place : layout.matrices) {
    if (place.in_rows != in_rows) continue;
    for (int b = 0; b < NumBlocks(*place.view); ++b) {
      blocks.push_back({&place, b});
    }
  }
  FirstError<absl::Status> error;
  threads_.ParallelFor(blocks.size(), [&](int64_t task, int worker) {
    const Block& block = blocks[task];
    Scratch& scratch = scratch_[worker];
    const bool int8 = block.place->view->format == WeightFormat::kInt8;
    error.Report(task, int8 ? PackInt8(block, memory.data(), scratch)
                            : PackBf16(block, memory.data(), scratch));
  });
  return error.status();
}

absl::Status UnitLoader::ReadRows(const MatrixPlace& place, int64_t first,
                                  int64_t count, Scratch& scratch) {
  const TensorSpec& tensor = place.tensor;
  const int64_t cols = tensor.shape[1];
  ASSIGN_OR_RETURN(const TensorLocation found,
                   checkpoint_.Find(tensor.name, tensor.dtype, tensor.shape));
  const uint64_t begin = sizeof(uint16_t) * first * cols;
  scratch.rows.resize(count * cols);
  const std::span<uint8_t> out = AsBytes(scratch.rows);
  if (out.size() < kDirectReadBytes) {
    return found.file->Read(*found.info, begin, out);
  }
  ASSIGN_OR_RETURN(const DirectReader* reader, Reader(found.file->path()));
  ASSIGN_OR_RETURN(
      const std::span<const uint8_t> bytes,
      reader->Read(found.info->offset + begin, out.size(), scratch.file_bytes));
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return absl::OkStatus();
}

absl::StatusOr<const DirectReader*> UnitLoader::Reader(
    const std::string& path) {
  MutexLock lock(mutex_);
  std::unique_ptr<DirectReader>& reader = readers_[path];
  if (reader == nullptr) {
    ASSIGN_OR_RETURN(reader, DirectReader::Open(path));
  }
  return reader.get();
}

absl::Status UnitLoader::PackBf16(const Block& block, uint8_t* memory,
                                  Scratch& scratch) {
  const MatrixPlace& place = *block.place;
  const LinearWeights& view = *place.view;
  const int64_t first = int64_t{block.index} * kRowBlock;
  const int rows = BlockRowCount(view, block.index);
  uint8_t* out =
      memory + place.offset +
      LinearBlockOffset(view.format, view.rows, view.cols, block.index);
  if (place.source != MatrixSource::kHeadKeys) {
    RETURN_IF_ERROR(ReadRows(place, place.first_row + first, rows, scratch));
    PackBf16Block(scratch.rows.data(), rows, view.cols, out);
    return absl::OkStatus();
  }
  // Tensor rows are the matrix's columns.
  RETURN_IF_ERROR(ReadRows(place, place.first_row, view.cols, scratch));
  scratch.transposed.resize(size_t{1} * rows * view.cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < view.cols; ++c) {
      scratch.transposed[size_t{1} * r * view.cols + c] =
          scratch.rows[c * place.tensor.shape[1] + first + r];
    }
  }
  PackBf16Block(scratch.transposed.data(), rows, view.cols, out);
  return absl::OkStatus();
}

absl::Status UnitLoader::PackInt8(const Block& block, uint8_t* memory,
                                  Scratch& scratch) {
  const MatrixPlace& place = *block.place;
  const LinearWeights& view = *place.view;
  const int64_t first = int64_t{block.index} * kRowBlock;
  const int rows = BlockRowCount(view, block.index);
  RETURN_IF_ERROR(ReadRows(place, place.first_row + first, rows, scratch));
  scratch.quantized.resize(scratch.rows.size());
  float* scales = reinterpret_cast<float*>(memory + place.scale_offset) + first;
  for (int r = 0; r < rows; ++r) {
    const size_t at = size_t{1} * r * view.cols;
    const KernelStatus result =
        QuantizeRowInt8(scratch.rows.data() + at, view.cols,
                        scratch.quantized.data() + at, scales + r);
    if (result == KernelStatus::kOk) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        place.tensor.name, " row ", first + r,
        result == KernelStatus::kNotFinite
            ? ": holds inf or NaN"
            : ": too small for an int8 row scale; use the bf16 spine"));
  }
  PackInt8Block(
      scratch.quantized.data(), rows, view.cols,
      memory + place.offset +
          LinearBlockOffset(view.format, view.rows, view.cols, block.index));
  return absl::OkStatus();
}

absl::Status UnitLoader::LoadVector(const VectorPlace& place, int head_dim,
                                    float* out) const {
  ASSIGN_OR_RETURN(const std::vector<float> values,
                   ReadVector(checkpoint_, place.tensor));
  switch (place.form) {
    case VectorForm::kHeadTaps:
      ArrangeTaps(values, head_dim, out);
      return absl::OkStatus();
    case VectorForm::kExp:
      kernel_.elementwise.exp(values.data(), place.count, out);
      return absl::OkStatus();
    case VectorForm::kProduct: {
      ASSIGN_OR_RETURN(const std::vector<float> factor,
                       ReadVector(checkpoint_, place.factor));
      kernel_.elementwise.multiply(values.data(), factor.data(), place.count,
                                   out);
      return absl::OkStatus();
    }
    case VectorForm::kPlain:
      std::copy_n(values.begin(), place.count, out);
      return absl::OkStatus();
  }
  return absl::InternalError("unknown vector form");
}

}  // namespace deltafin
