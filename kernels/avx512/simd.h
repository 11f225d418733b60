// kernels/avx512/simd.h
//
// Sixteen floats: the operations that docs/numerics.md allows, each correctly
// rounded or exact. In an unnamed namespace so that nothing compiled with
// AVX-512 can be shared with other files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

struct Simd {
  static constexpr int kLanes = 16;
  // Register blocking of bf16 and f32 tiles: tokens of a pass, vectors of rows,
  // and vectors of rows for one token alone.
  static constexpr int kTileTokens = 8;
  static constexpr int kTileVectors = 2;
  static constexpr int kSoloVectors = 2;
  // Register blocking of attention: 16 sums of 32 registers.
  static constexpr int kScoreQueries = 8;
  static constexpr int kScoreVectors = 2;
  static constexpr int kValueQueries = 8;
  static constexpr int kValueVectors = 2;

  using Floats = __m512;
  using Ints = __m512i;

  static Floats Set(float v) { return _mm512_set1_ps(v); }
  static Floats Load(const float* p, Full = {}) { return _mm512_loadu_ps(p); }
  static Floats Load(const float* p, Part part) {
    return _mm512_maskz_loadu_ps(Mask(part), p);
  }
  static void Store(float* p, Floats v, Full = {}) { _mm512_storeu_ps(p, v); }
  static void Store(float* p, Floats v, Part part) {
    _mm512_mask_storeu_ps(p, Mask(part), v);
  }

  static Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats Sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats Div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats Sqrt(Floats a) { return _mm512_sqrt_ps(a); }
  // a * b + c, one rounding.
  static Floats Fma(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  // Magnitude of a, sign of b: a where the mask has 0, b where it has 1.
  static Floats CopySign(Floats a, Floats b) {
    const Ints sign = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        sign, _mm512_castps_si512(b), _mm512_castps_si512(a), 0xca));
  }
  // a < b ? x : y
  static Floats SelectLess(Floats a, Floats b, Floats x, Floats y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  // 2^n of t = 1.5 * 2^23 + n.
  static Floats PowerOfShifted(Floats t) {
    const Ints field = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(
        _mm512_add_epi32(field, _mm512_set1_epi32(0x3f800000)));
  }

  // Bit patterns without the sign; NaN and inf are largest.
  static Ints Magnitude(Floats a) {
    return _mm512_and_si512(_mm512_castps_si512(a),
                            _mm512_set1_epi32(INT32_MAX));
  }
  static Ints ZeroInts() { return _mm512_setzero_si512(); }
  static Ints MaxInts(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static void StoreInts(int32_t* p, Ints v) { _mm512_storeu_si512(p, v); }
  // Nearest integers, ties to even.
  static Ints Round(Floats a) { return _mm512_cvtps_epi32(a); }

  // The even and the odd one of two bf16 columns of 16 rows.
  static Floats EvenBf16(const uint32_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static Floats OddBf16(const uint32_t* p) {
    const Ints odd = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), odd));
  }

  // 16 x 16, in place.
  static void Transpose(Floats (&rows)[16]) {
    Floats pairs[16];
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    Floats quads[16];  // quads[4 g + k]: columns 4 j + k of rows 4 g .. 4 g + 3
    for (int g = 0; g < 16; g += 4) {
      quads[g] = UnpackDoubles<false>(pairs[g], pairs[g + 2]);
      quads[g + 1] = UnpackDoubles<true>(pairs[g], pairs[g + 2]);
      quads[g + 2] = UnpackDoubles<false>(pairs[g + 1], pairs[g + 3]);
      quads[g + 3] = UnpackDoubles<true>(pairs[g + 1], pairs[g + 3]);
    }
    for (int k = 0; k < 4; ++k) {
      const Floats ab_even = _mm512_shuffle_f32x4(quads[k], quads[4 + k], 0x88);
      const Floats ab_odd = _mm512_shuffle_f32x4(quads[k], quads[4 + k], 0xdd);
      const Floats cd_even =
          _mm512_shuffle_f32x4(quads[8 + k], quads[12 + k], 0x88);
      const Floats cd_odd =
          _mm512_shuffle_f32x4(quads[8 + k], quads[12 + k], 0xdd);
      rows[k] = _mm512_shuffle_f32x4(ab_even, cd_even, 0x88);
      rows[4 + k] = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88);
      rows[8 + k] = _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
      rows[12 + k] = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
    }
  }

 private:
  static __mmask16 Mask(Part part) {
    return static_cast<__mmask16>((1u << part.count) - 1);
  }
  template <bool kHigh>
  static Floats UnpackDoubles(Floats a, Floats b) {
    const __m512d x = _mm512_castps_pd(a);
    const __m512d y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(kHigh ? _mm512_unpackhi_pd(x, y)
                                  : _mm512_unpacklo_pd(x, y));
  }
};

}  // namespace
}  // namespace deltafin
