// kernels/neon/linear_int8.h
//
// One tile of 32 rows and 128 columns of int8 weights (docs/numerics.md section
// 5) over a way to multiply signed bytes. Stored weights are q + 128: flipping
// the top bit gives q.
#pragma once

#include "kernels/linear_layout.h"
#include "kernels/neon/simd.h"
#include "kernels/vector/byte_limbs.h"
#include "kernels/vector/tile_prefetch.h"

namespace deltafin {
namespace {

// Bytes: a type with Sum (partial sums of four rows), kTokens per pass,
//   void Add(Sum&, int8x16_t w, int8x16_t limb) and int32x4_t Total(Sum).
template <class Bytes>
class Int8Tile : public ByteLimbs {
 public:
  static constexpr int kMaxTokens = 4;

  static constexpr int NumPasses(int tokens) {
    return kTileRows / (4 * Bytes::NumVectors(tokens));
  }

  template <int kTokens, bool kPrefetch>
  static void Run(const uint32_t* tile, const int32_t* x, TileAhead ahead,
                  float* acc) {
    constexpr int kVectors = Bytes::NumVectors(kTokens);
    for (int pass = 0; pass < NumPasses(kTokens); ++pass) {
      const int r = pass * 4 * kVectors;
      AddRows<kTokens, kVectors, kPrefetch>(tile + r, x, ahead.Pass(pass),
                                            acc + r);
    }
  }

 private:
  using Sum = typename Bytes::Sum;

  template <int kTokens, int kVectors, bool kPrefetch>
  [[gnu::always_inline]] static void AddRows(const uint32_t* tile,
                                             const int32_t* x, TileAhead ahead,
                                             float* acc) {
    Sum sums[kTokens][kVectors][3] = {};
    for (int quad = 0; quad < 32; ++quad) {
      if constexpr (kPrefetch) ahead.Prefetch<32>(quad);
      int8x16_t w[kVectors];
#pragma GCC unroll 4
      for (int m = 0; m < kVectors; ++m) {
        w[m] = LoadWeights(tile + quad * kTileRows + 4 * m);
      }
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 3
        for (int l = 0; l < 3; ++l) {
          const int8x16_t limb = vreinterpretq_s8_s32(
              vld1q_dup_s32(x + t * kTokenWords + kLo + 32 * l + quad));
#pragma GCC unroll 4
          for (int m = 0; m < kVectors; ++m) {
            Bytes::Add(sums[t][m][l], w[m], limb);
          }
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      const float32x4_t power =
          vreinterpretq_f32_s32(vld1q_dup_s32(x + t * kTokenWords + kPower));
      for (int m = 0; m < kVectors; ++m) {
        float* at = acc + t * kTileRows + 4 * m;
        const float32x4_t sum = RoundSum(sums[t][m]);
        Simd::Store(at, Simd::Fma(sum, power, Simd::Load(at)));
      }
    }
  }

  [[gnu::always_inline]] static int8x16_t LoadWeights(const uint32_t* p) {
    const uint8x16_t stored = vreinterpretq_u8_u32(vld1q_u32(p));
    return vreinterpretq_s8_u8(veorq_u8(stored, vdupq_n_u8(0x80)));
  }

  // f32 of the exact sum, one rounding (section 5).
  [[gnu::always_inline]] static float32x4_t RoundSum(const Sum (&limbs)[3]) {
    const int32x4_t low = vaddq_s32(Bytes::Total(limbs[0]),
                                    vshlq_n_s32(Bytes::Total(limbs[1]), 8));
    const int32x4_t high =
        vaddq_s32(Bytes::Total(limbs[2]), vshrq_n_s32(low, 16));
    const int32x4_t rest = vandq_s32(low, vdupq_n_s32(0xffff));
    return vfmaq_f32(vcvtq_f32_s32(rest), vcvtq_f32_s32(high),
                     vdupq_n_f32(65536.0f));
  }
};

}  // namespace
}  // namespace deltafin
