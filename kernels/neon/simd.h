// kernels/neon/simd.h
//
// Four floats: the operations that docs/numerics.md allows, each correctly
// rounded or exact. In an unnamed namespace so that nothing compiled with
// optional instructions can be shared with other files.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

struct Simd {
  static constexpr int kLanes = 4;
  // Register blocking of bf16 and f32 tiles: tokens of a pass, vectors of rows,
  // and vectors of rows for one token alone.
  static constexpr int kTileTokens = 4;
  static constexpr int kTileVectors = 4;
  static constexpr int kSoloVectors = 8;
  // Register blocking of attention: 16 sums of 32 registers.
  static constexpr int kScoreQueries = 4;
  static constexpr int kScoreVectors = 4;
  static constexpr int kValueQueries = 4;
  static constexpr int kValueVectors = 4;

  using Floats = float32x4_t;
  using Ints = int32x4_t;

  static Floats Set(float v) { return vdupq_n_f32(v); }
  static Floats Load(const float* p, Full = {}) { return vld1q_f32(p); }
  static Floats Load(const float* p, Part part) {
    float lanes[kLanes] = {};
    for (int i = 0; i < part.count; ++i) lanes[i] = p[i];
    return vld1q_f32(lanes);
  }
  static void Store(float* p, Floats v, Full = {}) { vst1q_f32(p, v); }
  static void Store(float* p, Floats v, Part part) {
    float lanes[kLanes];
    vst1q_f32(lanes, v);
    for (int i = 0; i < part.count; ++i) p[i] = lanes[i];
  }

  static Floats Add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats Sub(Floats a, Floats b) { return vsubq_f32(a, b); }
  static Floats Mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats Div(Floats a, Floats b) { return vdivq_f32(a, b); }
  static Floats Sqrt(Floats a) { return vsqrtq_f32(a); }
  // a * b + c, one rounding.
  static Floats Fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  // Magnitude of a, sign of b.
  static Floats CopySign(Floats a, Floats b) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), b, a);
  }
  // a < b ? x : y
  static Floats SelectLess(Floats a, Floats b, Floats x, Floats y) {
    return vbslq_f32(vcltq_f32(a, b), x, y);
  }
  // 2^n of t = 1.5 * 2^23 + n.
  static Floats PowerOfShifted(Floats t) {
    const uint32x4_t field = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    return vreinterpretq_f32_u32(vaddq_u32(field, vdupq_n_u32(0x3f800000u)));
  }

  // Bit patterns without the sign; NaN and inf are largest.
  static Ints Magnitude(Floats a) {
    return vandq_s32(vreinterpretq_s32_f32(a), vdupq_n_s32(INT32_MAX));
  }
  static Ints ZeroInts() { return vdupq_n_s32(0); }
  static Ints MaxInts(Ints a, Ints b) { return vmaxq_s32(a, b); }
  static void StoreInts(int32_t* p, Ints v) { vst1q_s32(p, v); }
  // Nearest integers, ties to even.
  static Ints Round(Floats a) { return vcvtnq_s32_f32(a); }

  // The even and the odd one of two bf16 columns of 4 rows.
  static Floats EvenBf16(const uint32_t* p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p), 16));
  }
  static Floats OddBf16(const uint32_t* p) {
    return vreinterpretq_f32_u32(
        vandq_u32(vld1q_u32(p), vdupq_n_u32(0xffff0000u)));
  }

  // 4 x 4, in place.
  static void Transpose(Floats (&rows)[4]) {
    const float32x4x2_t low = vtrnq_f32(rows[0], rows[1]);
    const float32x4x2_t high = vtrnq_f32(rows[2], rows[3]);
    rows[0] = Combine<false>(low.val[0], high.val[0]);
    rows[1] = Combine<false>(low.val[1], high.val[1]);
    rows[2] = Combine<true>(low.val[0], high.val[0]);
    rows[3] = Combine<true>(low.val[1], high.val[1]);
  }

 private:
  template <bool kHigh>
  static Floats Combine(Floats a, Floats b) {
    return kHigh ? vcombine_f32(vget_high_f32(a), vget_high_f32(b))
                 : vcombine_f32(vget_low_f32(a), vget_low_f32(b));
  }
};

}  // namespace
}  // namespace deltafin
