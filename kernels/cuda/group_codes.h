// kernels/cuda/group_codes.h
//
// What one lane of a warp does with a group of 32 columns (docs/numerics.md
// section 2) around the integer matrix instruction m16n8k32, u8 x s8 -> s32.
// Private to kernels/cuda/.
//
// Lane (g = lane / 4, c = lane % 4) reads 16 bytes of a group: columns
// 8c..8c+7 of rows 4g..4g+3 of a tile, one dword a row. Rows 4g and 4g+1 are
// rows g and g+8 of the first product, 4g+2 and 4g+3 those of the second;
// columns 8c..8c+3 are k = 4c..4c+3, columns 8c+4..8c+7 are k = 16+4c... So the
// released dwords are operands as they lie, and the lane ends with the sums of
// its four rows for token c.
//
// Activations of a token and group, kActivationBytes: for limbs p = 0, 1, for c
// = 0..3 sixteen bytes: limb p of columns 8c..8c+7, then limb 2 of them (p = 0)
// or zeros (p = 1). Column 2t+p of the first operand is limb p of token t,
// column 2t of the second one its limb 2.
#pragma once

#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/scalar_math.h"
#include "kernels/mxfp4.h"

namespace deltafin::cuda {

inline constexpr int kActivationBytes = 128;
inline constexpr int kProductTokens = 4;  // of one matrix instruction

// Beside them: what the first product starts with, all of it mod 2^32. `start`
// undoes the +12 of the codes and comes to both rows of the lane; the second
// one's limb 1 starts at `fields`, e - 1 in both halves, which `second_start`
// takes back.
struct alignas(16) ActivationHead {
  int32_t start;
  int32_t zero;
  int32_t second_start;  // start - 256 * fields
  int32_t fields;
};

// Byte offset of limb `limb` of column `column` (0..31).
DELTAFIN_HOST_DEVICE int ActivationOffset(int column, int limb) {
  const int quarter = 16 * (column / 8) + column % 8;
  return limb == 1 ? 64 + quarter : quarter + 4 * limb;
}

// Four bytes by the low three bits of four nibbles out of eight bytes; where a
// nibble's high bit is set, the chosen byte's sign bit eight times.
DELTAFIN_HOST_DEVICE uint32_t BytesByNibble(uint32_t low, uint32_t high,
                                            uint32_t nibbles) {
#ifdef __CUDA_ARCH__
  uint32_t bytes;  // the intrinsic __byte_perm would clear the high bits
  asm("prmt.b32 %0, %1, %2, %3;"
      : "=r"(bytes)
      : "r"(low), "r"(high), "r"(nibbles));
  return bytes;
#else
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = nibbles >> 4 * i & 15;
    const uint32_t word = (nibble & 4) != 0 ? high : low;
    uint32_t byte = word >> 8 * (nibble & 3) & 255;
    if ((nibble & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    bytes |= byte << 8 * i;
  }
  return bytes;
#endif
}

// Constants that the compiler must not know: products with them run beside the
// logic unit, which is the busiest.
struct Multipliers {
  uint32_t minus_one = 0xffffffff;
  uint32_t limb1 = 256;
  uint32_t limb2 = 65536;
};

// kShiftedCode of four nibbles as the sum of two: those whose sign is clear,
// with zeros elsewhere, and those whose sign is set, from a table in the order
// of inverted nibbles.
struct SplitCodes {
  uint32_t positive;
  uint32_t negative;
};

DELTAFIN_HOST_DEVICE SplitCodes ShiftedCodes(uint32_t nibbles, Multipliers m) {
  const uint32_t inverted = nibbles * m.minus_one + m.minus_one;
  return {BytesByNibble(0x0f0e0d0c, 0x18141210, nibbles),
          BytesByNibble(0x08060400, 0x0c0b0a09, inverted)};
}

// (a + e - 1 clamped to 0..255) of two halves.
DELTAFIN_HOST_DEVICE uint32_t ClampFields(uint32_t scales, uint32_t fields) {
#if defined(__CUDA_ARCH__)
  return __viaddmin_s16x2_relu(scales, fields, 0x00ff00ffu);
#else
  uint32_t both = 0;
  for (int half = 0; half < 2; ++half) {
    int v = static_cast<int16_t>(scales >> 16 * half) +
            static_cast<int16_t>(fields >> 16 * half);
    v = v > 255 ? 255 : v < 0 ? 0 : v;
    both |= static_cast<uint32_t>(v) << 16 * half;
  }
  return both;
#endif
}

// 2^(e + s - 128) of four rows, by their scale bytes.
DELTAFIN_HOST_DEVICE void GroupFactors(uint32_t scales, uint32_t fields,
                                       float factor[4]) {
  for (int pair = 0; pair < 2; ++pair) {
    const uint32_t two =
        BytesByNibble(scales, 0, pair == 0 ? 0x4140u : 0x4342u);
    const uint32_t clamped = ClampFields(two, fields);
    factor[2 * pair] = FloatOf(clamped << 23);
    factor[2 * pair + 1] = FloatOf((clamped << 7) & 0xff800000u);
  }
}

// The group's sum from the sums of its limbs, the lowest with `start` in it.
DELTAFIN_HOST_DEVICE int32_t CombineLimbs(int32_t l0, int32_t l1, int32_t l2,
                                          Multipliers m) {
  const uint32_t low =
      static_cast<uint32_t>(l1) * m.limb1 + static_cast<uint32_t>(l0);
  return static_cast<int32_t>(static_cast<uint32_t>(l2) * m.limb2 + low);
}

// The biased exponent E of a group from its largest magnitude's bits.
DELTAFIN_HOST_DEVICE int ExponentField(uint32_t largest) {
  const int field = static_cast<int>((largest + kMantissaCarry) >> 23);
  return field < kLowestExponentField ? kLowestExponentField : field;
}

DELTAFIN_HOST_DEVICE int32_t QuantizedValue(float x, int field) {
  const float scaled = x * FloatOf(static_cast<uint32_t>(276 - field) << 23);
#ifdef __CUDA_ARCH__
  return __float2int_rn(scaled);
#else
  return static_cast<int32_t>(lrintf(scaled));
#endif
}

DELTAFIN_HOST_DEVICE void SplitLimbs(int32_t x, int8_t limb[3]) {
  limb[0] = static_cast<int8_t>(x);
  x = (x - limb[0]) >> 8;
  limb[1] = static_cast<int8_t>(x);
  limb[2] = static_cast<int8_t>((x - limb[1]) >> 8);
}

DELTAFIN_HOST_DEVICE ActivationHead HeadOf(int field, int32_t sum) {
  const auto below = static_cast<uint32_t>(field - kExponentOffset - 1);
  const uint32_t fields = (below & 0xffffu) | below << 16;
  const uint32_t start = 0u - 12u * static_cast<uint32_t>(sum);
  return {static_cast<int32_t>(start), 0,
          static_cast<int32_t>(start - 256u * fields),
          static_cast<int32_t>(fields)};
}

}  // namespace deltafin::cuda
