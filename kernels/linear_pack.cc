// Released rows to tile order: dwords are moved, values are not changed
// (docs/numerics.md sections 4 and 5). Written so that 32 rows of one chunk
// stay in L1 while a tile is written front to back.
#include <algorithm>
#include <cstring>

#include "kernels/linear_kernel.h"
#include "kernels/linear_layout.h"

namespace deltafin {
namespace {

// int8 weights are stored as q + 128, so that they are the unsigned operand of
// a dot product; a padded weight is 0 + 128.
constexpr uint32_t kInt8Bias = 0x80808080u;

// Moves a full tile: 32 rows, a whole chunk of columns. Two dwords of a row at
// a time halve the reads.
template <typename Value>
void PackFullTile(const Value* src, int cols, int tile_columns, uint32_t bias,
                  uint32_t* out) {
  constexpr int kPerDword = 4 / sizeof(Value);
  for (int column = 0; column < tile_columns; column += 2 * kPerDword) {
    const Value* row = src + column;
    for (int r = 0; r < kTileRows; ++r, row += cols) {
      uint64_t pair;
      std::memcpy(&pair, row, sizeof(pair));
      out[r] = static_cast<uint32_t>(pair) ^ bias;
      out[r + kTileRows] = static_cast<uint32_t>(pair >> 32) ^ bias;
    }
    out += 2 * kTileRows;
  }
}

// Copies a ragged tile into a zero-padded one and moves that.
template <typename Value, int kColumns>
void PackRaggedTile(const Value* src, int cols, int tile_rows, int columns,
                    uint32_t bias, uint32_t* out) {
  Value padded[kTileRows * kColumns] = {};
  for (int r = 0; r < tile_rows; ++r) {
    std::memcpy(padded + r * kColumns, src + static_cast<size_t>(r) * cols,
                columns * sizeof(Value));
  }
  PackFullTile(padded, kColumns, kColumns, bias, out);
}

template <WeightFormat kFormat, typename Value>
void PackBlock(const Value* src, int num_rows, int cols, uint32_t bias,
               uint32_t* out) {
  constexpr int kColumns = ChunkColumns(kFormat);
  for (int column = 0; column < cols; column += kColumns) {
    const int columns = std::min(kColumns, cols - column);
    for (int row = 0; row < num_rows; row += kTileRows) {
      const int tile_rows = std::min(kTileRows, num_rows - row);
      const Value* from = src + static_cast<size_t>(row) * cols + column;
      if (tile_rows == kTileRows && columns == kColumns) {
        PackFullTile(from, cols, kColumns, bias, out);
      } else {
        PackRaggedTile<Value, kColumns>(from, cols, tile_rows, columns, bias,
                                        out);
      }
      out += TileDwords(kFormat);
    }
  }
}

}  // namespace

size_t LinearTileBytes(WeightFormat format, int rows, int cols) {
  const int full_blocks = rows / kRowBlock;
  const size_t dwords = BlockOffsetDwords(format, cols, full_blocks) +
                        BlockDwords(format, rows % kRowBlock, cols);
  return dwords * sizeof(uint32_t);
}

size_t LinearBlockOffset(WeightFormat format, int /*rows*/, int cols,
                         int block) {
  return BlockOffsetDwords(format, cols, block) * sizeof(uint32_t);
}

void PackBf16Block(const uint16_t* src, int num_rows, int cols, void* out) {
  PackBlock<WeightFormat::kBf16>(src, num_rows, cols, 0,
                                 static_cast<uint32_t*>(out));
}

void PackF32Block(const float* src, int num_rows, int cols, void* out) {
  PackBlock<WeightFormat::kF32>(src, num_rows, cols, 0,
                                static_cast<uint32_t*>(out));
}

void PackInt8Block(const int8_t* src, int num_rows, int cols, void* out) {
  PackBlock<WeightFormat::kInt8>(src, num_rows, cols, kInt8Bias,
                                 static_cast<uint32_t*>(out));
}

}  // namespace deltafin
