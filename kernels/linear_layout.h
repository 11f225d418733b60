// kernels/linear_layout.h
//
// Where a weight of a spine matrix lies in tile order (docs/numerics.md
// sections 4 and 5): blocks of 256 rows; in a block chunks of columns; in a
// chunk tiles of 32 rows; in a tile one dword a row for two bf16 columns, one
// f32 column or four int8 columns. Pure arithmetic; for the packing code and
// the kernels. Functions are static so that the kernels' objects, which are
// compiled with wider instructions, export nothing the linker could share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear_kernel.h"

namespace deltafin {

inline constexpr int kTileRows = 32;

// Columns of a chunk: the unit of the sums' order.
static constexpr int ChunkColumns(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 128 : 64;
}

// Columns that share the dword of a row.
static constexpr int DwordColumns(WeightFormat format) {
  return format == WeightFormat::kInt8   ? 4
         : format == WeightFormat::kBf16 ? 2
                                         : 1;
}

// Dwords of a tile: 1,024 (4,096 bytes) for bf16 and int8, 2,048 for f32.
static constexpr size_t TileDwords(WeightFormat format) {
  return size_t{kTileRows} * (ChunkColumns(format) / DwordColumns(format));
}

static constexpr int NumChunks(WeightFormat format, int cols) {
  return (cols + ChunkColumns(format) - 1) / ChunkColumns(format);
}

// Tiles of a chunk in a block of num_rows <= 256 rows.
static constexpr int BlockTiles(int num_rows) {
  return (num_rows + kTileRows - 1) / kTileRows;
}

// Dwords of a block of num_rows <= 256 rows.
static constexpr size_t BlockDwords(WeightFormat format, int num_rows,
                                    int cols) {
  return TileDwords(format) * BlockTiles(num_rows) * NumChunks(format, cols);
}

// First dword of row block `block` (every block before it has 256 rows).
static constexpr size_t BlockOffsetDwords(WeightFormat format, int cols,
                                          int block) {
  return BlockDwords(format, kRowBlock, cols) * block;
}

// Rows of row block `block` of a matrix with `rows` rows.
static constexpr int BlockRows(int rows, int block) {
  const int left = rows - block * kRowBlock;
  return left < kRowBlock ? left : kRowBlock;
}

}  // namespace deltafin
