// kernels/cuda/spine_tiles.h
//
// How the spine's matrices and activations lie in a card's memory, and how a
// launch of products is cut over the card (docs/cuda.md, "The spine"). Pure
// arithmetic; compiled for the card and, for tests, for the processor.
//
// A matrix is tiles of 32 rows and 128 bytes (64 bf16 or 128 int8 columns), 4
// KB each and row-major inside, zero padded; the tiles of 32 rows lie one after
// the other along the columns. Activations are kept for kSpineTokens tokens in
// the order in which the lanes of a matrix instruction take them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/scalar_math.h"

namespace deltafin::cuda {

inline constexpr int kSpineTokens = 8;     // columns of a matrix instruction
inline constexpr int kSpineTileRows = 32;  // of a warp
inline constexpr int kSpineTileBytes = 4096;
inline constexpr int kSpineRowBytes = 128;   // of a row in a tile
inline constexpr int kSpineBlockRows = 256;  // eight warps
inline constexpr int kPreparedColumns = 128;
inline constexpr int kSplitParts = 3;  // bf16 parts of a float
inline constexpr int kLimbParts = 3;   // signed bytes of an integer

// Tiles along the columns of a matrix whose values take value_bytes (2 or 1).
DELTAFIN_HOST_DEVICE int SpineStages(int cols, int value_bytes) {
  return (cols * value_bytes + kSpineRowBytes - 1) / kSpineRowBytes;
}

DELTAFIN_HOST_DEVICE int SpineRowTiles(int rows) {
  return (rows + kSpineTileRows - 1) / kSpineTileRows;
}

DELTAFIN_HOST_DEVICE int PreparedChunks(int cols) {
  return (cols + kPreparedColumns - 1) / kPreparedColumns;
}

// Bytes of prepared activations: parts of bf16, limbs, factors of the limbs.
constexpr size_t SplitBytes(int chunks) {
  return size_t{4} * kSplitParts * 512 * chunks;
}
constexpr size_t LimbBytes(int chunks) {
  return size_t{2} * kLimbParts * 512 * chunks;
}
constexpr size_t FactorBytes(int chunks) {
  return size_t{kSpineTokens} * sizeof(float) * chunks;
}

// Where part `part` of columns 4q..4q+3 (q 0..31) of a chunk of 128 lies: the
// offset of 8 bytes. Lane (token, c) of the instructions for 32 columns takes
// 16 bytes: columns 8c..8c+7.
DELTAFIN_HOST_DEVICE size_t SplitOffset(int chunk, int part, int token, int q) {
  const int columns32 = 4 * chunk + q / 8;
  const int c = q % 8 / 2;
  return (size_t(columns32 * kSplitParts + part) * 32 + token * 4 + c) * 16 +
         q % 2 * 8;
}

// The offset of 4 bytes: limb `limb` of the same columns. Lane (token, c) takes
// 16 bytes for 64 columns: 16c..16c+15.
DELTAFIN_HOST_DEVICE size_t LimbOffset(int chunk, int limb, int token, int q) {
  const int c = q % 16 / 4;
  return (size_t((chunk * kLimbParts + limb) * 2 + q / 16) * 32 + token * 4 +
          c) *
             16 +
         q % 4 * 4;
}

// bf16 nearest to f, ties to even. NaN stays NaN or becomes inf.
DELTAFIN_HOST_DEVICE uint16_t NearestBf16(float f) {
  const uint32_t bits = BitsOf(f);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

DELTAFIN_HOST_DEVICE float WidenBf16(uint32_t bits) {
  return FloatOf(bits << 16);
}

// f = the sum of three bf16, exact but where the last one is subnormal.
DELTAFIN_HOST_DEVICE void SplitFloat(float f, uint16_t parts[kSplitParts]) {
  for (int p = 0; p < kSplitParts; ++p) {
    parts[p] = NearestBf16(f);
    f -= WidenBf16(parts[p]);
  }
}

inline constexpr uint32_t kNotFiniteExponent = 256;

// The exponent field of docs/numerics.md section 2 for a largest magnitude.
DELTAFIN_HOST_DEVICE uint32_t LimbExponent(uint32_t largest_bits) {
  if (largest_bits >= 0x7f800000u) return kNotFiniteExponent;
  const uint32_t field = (largest_bits + 0x555555u) >> 23;
  return field < 33 ? 33 : field;
}
// x times this, rounded, is the integer; the integer times LimbFactor is x.
DELTAFIN_HOST_DEVICE float LimbInverse(uint32_t exponent) {
  return FloatOf((276 - exponent) << 23);
}
// NaN where a value was not finite, so that every result shows it.
DELTAFIN_HOST_DEVICE float LimbFactor(uint32_t exponent) {
  return exponent == kNotFiniteExponent ? FloatOf(0x7fc00000u)
                                        : FloatOf((exponent - 22) << 23);
}

// Attention's floats come as two fp16 halves of x * 2^-e.
inline constexpr int kLeastHalvesExponent = -100;
inline constexpr int kMostHalvesExponent = 100;

// The e that brings a largest magnitude, given by its bits, to 2^12..2^13, as
// far as it goes. 0 where it is inf or NaN: so are the halves.
DELTAFIN_HOST_DEVICE int HalvesExponent(uint32_t largest_bits) {
  if (largest_bits >= 0x7f800000u) return 0;
  const int exponent = static_cast<int>(largest_bits >> 23) - 127 - 12;
  if (exponent < kLeastHalvesExponent) return kLeastHalvesExponent;
  return exponent > kMostHalvesExponent ? kMostHalvesExponent : exponent;
}

// 2^e for e up to 127, at least 2^-126.
DELTAFIN_HOST_DEVICE float PowerOfTwo(int e) {
  return FloatOf(static_cast<uint32_t>((e < -126 ? -126 : e) + 127) << 23);
}

// x = l0 + 256 l1 + 65536 l2 in signed bytes.
DELTAFIN_HOST_DEVICE void SplitInteger(int32_t x, int8_t limbs[kLimbParts]) {
  limbs[0] = static_cast<int8_t>(x);
  x = (x - limbs[0]) >> 8;
  limbs[1] = static_cast<int8_t>(x);
  limbs[2] = static_cast<int8_t>((x - limbs[1]) >> 8);
}

// The sums of one matrix as a launch left them. A launch is a line of stages,
// row block after row block, cut evenly over the blocks of its grid; the part
// of a row block that one block summed is a slot of [kSpineTokens][256].
struct ProductView {
  const float* partials = nullptr;
  int first_block = 0;  // row blocks of the matrices before
  int first_stage = 0;
  int stages = 0;  // of a row block
  int per_block = 1;
};

DELTAFIN_HOST_DEVICE int ProductSlot(int row_block, int grid_block) {
  return row_block + grid_block;  // both only grow along the line
}

// A row of the product for one token: its parts in ascending column order.
DELTAFIN_HOST_DEVICE float ProductValue(const ProductView& view, int token,
                                        int row) {
  const int block = row / kSpineBlockRows;
  const int begin = view.first_stage + block * view.stages;
  const int first = begin / view.per_block;
  const int last = (begin + view.stages - 1) / view.per_block;
  const float* part =
      view.partials +
      (size_t(ProductSlot(view.first_block + block, first)) * kSpineTokens +
       token) *
          kSpineBlockRows +
      row % kSpineBlockRows;
  float sum = part[0];
  for (int g = first + 1; g <= last; ++g) {
    part += kSpineTokens * kSpineBlockRows;
    sum += part[0];
  }
  return sum;
}

}  // namespace deltafin::cuda
