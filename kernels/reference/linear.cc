// The definition of the spine's matrix products (docs/numerics.md sections 4
// and 5), one value at a time.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/linear_kernel.h"
#include "kernels/linear_layout.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kExponent = 0x7f800000u;

bool IsFinite(float v) {
  return (std::bit_cast<uint32_t>(v) & kExponent) != kExponent;
}

float PowerOfTwo(int e) {
  return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
}

// Prepared activations: f32 rows [T, cols] as they are, or for int8 one
// QuantizedChunk for each token and chunk of 128 columns.
struct QuantizedChunk {
  int32_t exponent;     // e
  int32_t values[128];  // X_j; missing columns are 0
};

// Section 2's rule over num_columns values. False: inf or NaN.
bool QuantizeChunk(const float* x, int num_columns, QuantizedChunk* out) {
  uint32_t m = 0;
  for (int j = 0; j < num_columns; ++j) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[j]) & kMagnitude;
    m = magnitude > m ? magnitude : m;
  }
  if (m >= kExponent) return false;
  const uint32_t shifted = (m + 0x555555u) >> 23;
  const int field = shifted < 33 ? 33 : static_cast<int>(shifted);
  out->exponent = field - 149;
  const float factor =
      std::bit_cast<float>(static_cast<uint32_t>(276 - field) << 23);
  for (int j = 0; j < 128; ++j) {
    out->values[j] =
        j < num_columns ? static_cast<int32_t>(std::lrint(x[j] * factor)) : 0;
  }
  return true;
}

// The dwords of one row in one chunk: element k is at [k * kTileRows].
const uint32_t* RowDwords(const LinearWeights& w, int row, int chunk) {
  const int block = row / kRowBlock;
  const int tile = row % kRowBlock / kTileRows;
  const int tiles = BlockTiles(BlockRows(w.rows, block));
  return static_cast<const uint32_t*>(w.tiles) +
         BlockOffsetDwords(w.format, w.cols, block) +
         TileDwords(w.format) * (static_cast<size_t>(chunk) * tiles + tile) +
         row % kTileRows;
}

// Weight of column j of the chunk.
float FloatWeight(WeightFormat format, const uint32_t* dwords, int j) {
  if (format == WeightFormat::kF32) {
    return std::bit_cast<float>(dwords[j * kTileRows]);
  }
  const uint32_t pair = dwords[j / 2 * kTileRows];
  return std::bit_cast<float>(j % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

int32_t Int8Weight(const uint32_t* dwords, int j) {
  const uint32_t quad = dwords[j / 4 * kTileRows];
  return static_cast<int32_t>(quad >> (8 * (j % 4)) & 255) - 128;
}

float FloatRow(const LinearWeights& w, int row, const float* x) {
  const int chunk_columns = ChunkColumns(w.format);
  float acc = 0;
  for (int c = 0; c < NumChunks(w.format, w.cols); ++c) {
    const uint32_t* dwords = RowDwords(w, row, c);
    float p = 0;
    for (int j = 0; j < chunk_columns && c * chunk_columns + j < w.cols; ++j) {
      p = std::fma(FloatWeight(w.format, dwords, j), x[c * chunk_columns + j],
                   p);
    }
    acc = acc + p;
  }
  return acc;
}

float Int8Row(const LinearWeights& w, int row, const QuantizedChunk* x) {
  float acc = 0;
  for (int c = 0; c < NumChunks(w.format, w.cols); ++c) {
    const uint32_t* dwords = RowDwords(w, row, c);
    int64_t sum = 0;
    for (int j = 0; j < 128; ++j) {
      sum += int64_t{Int8Weight(dwords, j)} * x[c].values[j];
    }
    acc = std::fma(static_cast<float>(sum), PowerOfTwo(x[c].exponent), acc);
  }
  return acc * w.row_scale[row];
}

size_t PreparedBytes(WeightFormat format, int cols, int num_tokens) {
  const size_t row = format == WeightFormat::kInt8
                         ? NumChunks(format, cols) * sizeof(QuantizedChunk)
                         : cols * sizeof(float);
  return row * num_tokens;
}

KernelStatus Prepare(WeightFormat format, const float* x, size_t ldx,
                     int num_tokens, int cols, void* out) {
  for (int t = 0; t < num_tokens; ++t) {
    const float* row = x + t * ldx;
    if (format != WeightFormat::kInt8) {
      std::memcpy(static_cast<float*>(out) + static_cast<size_t>(t) * cols, row,
                  cols * sizeof(float));
      continue;
    }
    const int chunks = NumChunks(format, cols);
    auto* chunk =
        static_cast<QuantizedChunk*>(out) + static_cast<size_t>(t) * chunks;
    for (int c = 0; c < chunks; ++c) {
      const int left = cols - c * 128;
      if (!QuantizeChunk(row + c * 128, left < 128 ? left : 128, chunk + c)) {
        return KernelStatus::kNotFinite;
      }
    }
  }
  return KernelStatus::kOk;
}

float Row(const LinearWeights& w, int row, const void* prepared, int token) {
  if (w.format == WeightFormat::kInt8) {
    const size_t chunks = NumChunks(w.format, w.cols);
    return Int8Row(
        w, row, static_cast<const QuantizedChunk*>(prepared) + token * chunks);
  }
  return FloatRow(w, row,
                  static_cast<const float*>(prepared) +
                      static_cast<size_t>(token) * w.cols);
}

KernelStatus Multiply(const LinearWeights& w, const void* prepared,
                      int num_tokens, int row_begin, int row_end, float* y,
                      size_t ldy) {
  KernelStatus status = KernelStatus::kOk;
  for (int t = 0; t < num_tokens; ++t) {
    for (int r = row_begin; r < row_end; ++r) {
      const float value = Row(w, r, prepared, t);
      if (!IsFinite(value)) status = KernelStatus::kOverflow;
      y[t * ldy + r] = value;
    }
  }
  return status;
}

}  // namespace

const LinearKernel kReferenceLinearKernel = {PreparedBytes, Prepare, Multiply};

}  // namespace deltafin
