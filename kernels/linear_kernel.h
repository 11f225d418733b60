// kernels/linear_kernel.h
//
// y = x W^T for spine weights: bf16, f32 or int8 rows, f32 activations
// (docs/numerics.md sections 4 and 5), lanes = rows. Weights are in tile order:
// blocks of 256 rows, chunks of columns, tiles of 32 rows. Rows are padded to
// 32, columns to the chunk. Every entry point is re-entrant, allocates nothing
// and blocks on nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_status.h"

namespace deltafin {

enum class WeightFormat : uint8_t { kBf16, kF32, kInt8 };

inline constexpr int kRowBlock =
    256;  // rows of a block: the unit in which threads share a matrix

// A matrix [rows, cols] in tile order. Does not own its memory.
struct LinearWeights {
  WeightFormat format = WeightFormat::kBf16;
  int rows = 0;
  int cols = 0;
  const void* tiles =
      nullptr;  // LinearTileBytes(format, rows, cols), 64-byte aligned
  const float* row_scale = nullptr;  // [rows], int8 only
};

struct LinearKernel {
  // Bytes that `prepare` writes for T tokens of width cols.
  size_t (*prepared_bytes)(WeightFormat format, int cols, int num_tokens);
  // Arranges x [T, ldx] f32 for `multiply`. out 64-byte aligned. kNotFinite
  // only for kInt8 (bf16 and f32 carry inf to the result, where it is an
  // error). A matrix of the same format and width can reuse the result.
  KernelStatus (*prepare)(WeightFormat format, const float* x, size_t ldx,
                          int num_tokens, int cols, void* out);
  // Rows [row_begin, row_end) of y: y[t * ldy + r]. row_begin is a multiple of
  // kRowBlock; row_end too, or equals w.rows. kOverflow: some y is inf or NaN.
  KernelStatus (*multiply)(const LinearWeights& w, const void* prepared,
                           int num_tokens, int row_begin, int row_end, float* y,
                           size_t ldy);
};

// Bytes of a matrix in tile order, padding included.
size_t LinearTileBytes(WeightFormat format, int rows, int cols);
// Offset of row block `block` in it, so that blocks can be filled one at a
// time.
size_t LinearBlockOffset(WeightFormat format, int rows, int cols, int block);

// Released rows to tiles, block by block: `src` points at row block*256,
// num_rows <= 256 rows of `cols` values (row-major, dense). Writes the whole
// block at out (= tiles + LinearBlockOffset), zero padding included.
void PackBf16Block(const uint16_t* src, int num_rows, int cols, void* out);
void PackF32Block(const float* src, int num_rows, int cols, void* out);
void PackInt8Block(const int8_t* src, int num_rows, int cols, void* out);

// Quantises one bf16 row to int8 (section 5): *scale = max|w| / 127, q in
// [-127, 127]. kNotFinite: inf or NaN in the row. kOverflow: the scale is
// subnormal or zero although the row is not.
KernelStatus QuantizeRowInt8(const uint16_t* row, int cols, int8_t* q,
                             float* scale);

}  // namespace deltafin
