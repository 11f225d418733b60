// kernels/neon/expert_tokens.h
//
// What both NEON targets do with activations and sums: quantising, the test for
// inf and NaN, fixed-point terms. Included by one file of each target;
// everything has internal linkage.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/activation_limbs.h"
#include "kernels/fixed_point.h"
#include "kernels/mxfp4.h"

namespace deltafin {
namespace neon {

constexpr int kVectors = kMxfp4Group / 4;  // registers of a group

static inline uint32x4_t Magnitude(float32x4_t v) {
  return vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(kMagnitudeMask));
}

// The low bytes of 16 columns.
static inline int8x16_t LowBytes(const int32x4_t x[4]) {
  const int16x8_t low = vcombine_s16(vmovn_s32(x[0]), vmovn_s32(x[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(x[2]), vmovn_s32(x[3]));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

// Stores one limb of 16 columns as four words, and adds up its columns 0..3 and
// 4..7 (mod 8).
static inline void StoreLimb(int8x16_t limb, int stride, int32_t* out,
                             int sums[2]) {
  // Columns 8q + {0,2,4,6} then 8q + {1,3,5,7}.
  static const uint8_t kOrder[16] = {0, 2,  4,  6,  1, 3,  5,  7,
                                     8, 10, 12, 14, 9, 11, 13, 15};
  int32_t words[4];
  vst1q_s32(words, vreinterpretq_s32_s8(vqtbl1q_s8(limb, vld1q_u8(kOrder))));
  for (int w = 0; w < 4; ++w) out[w * stride] = words[w];
  const int32x4_t quads = vpaddlq_s16(vpaddlq_s8(limb));
  sums[0] += vgetq_lane_s32(quads, 0) + vgetq_lane_s32(quads, 2);
  sums[1] += vgetq_lane_s32(quads, 1) + vgetq_lane_s32(quads, 3);
}

// The three limbs of x [32 columns].
static inline void StoreLimbs(int32x4_t x[kVectors], int block_tokens,
                              int32_t* limbs, int sums[kLimbs][2]) {
  const int stride = kLimbs * block_tokens;
  for (int l = 0; l < kLimbs; ++l) {
    sums[l][0] = sums[l][1] = 0;
    StoreLimb(LowBytes(x), stride, limbs + l, sums[l]);
    StoreLimb(LowBytes(x + 4), stride, limbs + l + 4 * stride, sums[l]);
    for (int j = 0; j < kVectors; ++j) {
      x[j] = vshrq_n_s32(vaddq_s32(x[j], vdupq_n_s32(128)), 8);
    }
  }
}

// One group of 32 columns; false: inf or NaN inside.
static bool QuantizeGroup(const float* x, int block_tokens, int lane,
                          int32_t* group) {
  float32x4_t v[kVectors];
  uint32x4_t largest = vdupq_n_u32(0);
  for (int j = 0; j < kVectors; ++j) {
    v[j] = vld1q_f32(x + 4 * j);
    largest = vmaxq_u32(largest, Magnitude(v[j]));
  }
  const uint32_t bits = vmaxvq_u32(largest);
  if (bits >= kInfinityBits) return false;
  int field = static_cast<int>((bits + kMantissaCarry) >> 23);
  if (field < kLowestExponentField) field = kLowestExponentField;
  const float32x4_t scale =
      vreinterpretq_f32_s32(vdupq_n_s32((276 - field) << 23));
  int32x4_t q[kVectors];
  int32x4_t sum = vdupq_n_s32(0);
  for (int j = 0; j < kVectors; ++j) {
    q[j] = vcvtnq_s32_f32(vmulq_f32(v[j], scale));
    sum = vaddq_s32(sum, q[j]);
  }
  int limb_sums[kLimbs][2];
  StoreLimbs(q, block_tokens, group + kHeadWords * block_tokens + lane * kLimbs,
             limb_sums);
  WriteLimbHead(field - kExponentOffset, static_cast<uint32_t>(vaddvq_s32(sum)),
                limb_sums, block_tokens, lane, group);
  return true;
}

static bool Quantize(const float* x, int cols, int block_tokens, int lane,
                     int32_t* out) {
  for (int c = 0; c < cols; c += kMxfp4Group) {
    if (!QuantizeGroup(x + c, block_tokens, lane, out)) return false;
    out += kGroupWords * block_tokens;
  }
  return true;
}

static bool AllFinite(const float* y, int n) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (int i = 0; i < n; i += 4) {
    largest = vmaxq_u32(largest, Magnitude(vld1q_f32(y + i)));
  }
  return vmaxvq_u32(largest) < kInfinityBits;
}

static bool AddFixed(float weight, const float* y, int n, int64_t* sums) {
  const float64x2_t w = vdupq_n_f64(weight);
  const float64x2_t limit = vdupq_n_f64(kFixedLimit);
  uint64x2_t ok = vdupq_n_u64(~uint64_t{0});
  for (int i = 0; i < n; i += 2) {
    const float64x2_t t = vmulq_f64(w, vcvt_f64_f32(vld1_f32(y + i)));
    ok = vandq_u64(ok, vcaltq_f64(t, limit));  // false for NaN, too
    const int64x2_t term = vcvtnq_s64_f64(vmulq_n_f64(t, kFixedScale));
    vst1q_s64(sums + i, vaddq_s64(vld1q_s64(sums + i), term));
  }
  return (vgetq_lane_u64(ok, 0) & vgetq_lane_u64(ok, 1)) == ~uint64_t{0};
}

// Factors 2^(e + s - 128) of four rows for token b of a block of B.
template <int B>
static inline float32x4_t Factors(const uint8_t* scales, const int32_t* group,
                                  int b) {
  const uint8x8_t s = vreinterpret_u8_u32(
      vld1_dup_u32(reinterpret_cast<const uint32_t*>(scales)));
  const uint8x8_t add =
      vreinterpret_u8_s32(vdup_n_s32(group[kAddByte * B + b]));
  const uint8x8_t sub =
      vreinterpret_u8_s32(vdup_n_s32(group[kSubByte * B + b]));
  const uint16x8_t fields = vmovl_u8(vqsub_u8(vqadd_u8(s, add), sub));
  return vreinterpretq_f32_u32(
      vshlq_n_u32(vmovl_u16(vget_low_u16(fields)), 23));
}

// Four columns of four rows: codes in the low or high nibbles of `v`, as twice
// the weights.
template <bool kHigh>
static inline int8x16_t Decode(uint8x16_t v) {
  const uint8x16_t nibbles =
      kHigh ? vshrq_n_u8(v, 4) : vandq_u8(v, vdupq_n_u8(15));
  return vqtbl1q_s8(vld1q_s8(kDoubledCode), nibbles);
}

// Adds sums [rows 0..3] of token b to its results.
template <int B>
static inline void AddResult(int32x4_t sum, const uint8_t* scales,
                             const int32_t* group, int b, float* y) {
  float* out = y + b * kTileBlockRows;
  vst1q_f32(out, vfmaq_f32(vld1q_f32(out), vcvtq_f32_s32(sum),
                           Factors<B>(scales, group, b)));
}

// The tile over sums of four rows: Sums<B> has Start(), Add<high>(codes, words
// of limbs) and Combined(b).
template <template <int> class Sums>
struct TileOfFourRows {
  template <int B, int G>
  [[gnu::always_inline]] static void Add(const uint8_t* tile,
                                         const int32_t* group, float* y) {
    for (int g = 0; g < G; ++g, group += kGroupWords * B) {
      const uint8_t* scales = tile + g * kTileRows;
      const uint8_t* octets =
          tile + kTileScaleBytes + g * kOctetsPerGroup * kOctetBytes;
      for (int row = 0; row < kTileRows; row += 4) {
        AddRows<B>(scales + row, octets + 4 * row, group, y + row);
      }
    }
  }

 private:
  template <int B>
  [[gnu::always_inline]] static void AddRows(const uint8_t* scales,
                                             const uint8_t* octet,
                                             const int32_t* group, float* y) {
    Sums<B> sums;
    sums.Start();
    const int32_t* limbs = group + kHeadWords * B;
    for (int q = 0; q < kOctetsPerGroup; ++q, octet += kOctetBytes) {
      const uint8x16_t v = vld1q_u8(octet);
      sums.Add(Decode<false>(v), limbs);
      sums.Add(Decode<true>(v), limbs + B * kLimbs);
      limbs += 2 * B * kLimbs;
    }
    for (int b = 0; b < B; ++b) {
      AddResult<B>(sums.Combined(b), scales, group, b, y);
    }
  }
};

// One word of limbs in every lane.
static inline int8x16_t LimbWord(const int32_t* word) {
  return vreinterpretq_s8_s32(vld1q_dup_s32(word));
}

}  // namespace neon
}  // namespace deltafin
