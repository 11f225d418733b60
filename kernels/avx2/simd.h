// kernels/avx2/simd.h
//
// Eight floats: the operations that docs/numerics.md allows, each correctly
// rounded or exact. In an unnamed namespace so that nothing compiled with AVX2
// can be shared with other files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

struct Simd {
  static constexpr int kLanes = 8;
  // Register blocking of bf16 and f32 tiles: tokens of a pass, vectors of rows,
  // and vectors of rows for one token alone.
  static constexpr int kTileTokens = 4;
  static constexpr int kTileVectors = 2;
  static constexpr int kSoloVectors = 4;
  // Register blocking of attention: 8 sums of 16 registers.
  static constexpr int kScoreQueries = 4;
  static constexpr int kScoreVectors = 2;
  static constexpr int kValueQueries = 4;
  static constexpr int kValueVectors = 2;

  using Floats = __m256;
  using Ints = __m256i;

  static Floats Set(float v) { return _mm256_set1_ps(v); }
  static Floats Load(const float* p, Full = {}) { return _mm256_loadu_ps(p); }
  static Floats Load(const float* p, Part part) {
    return _mm256_maskload_ps(p, Mask(part));
  }
  static void Store(float* p, Floats v, Full = {}) { _mm256_storeu_ps(p, v); }
  static void Store(float* p, Floats v, Part part) {
    _mm256_maskstore_ps(p, Mask(part), v);
  }

  static Floats Add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats Sub(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats Mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats Div(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats Sqrt(Floats a) { return _mm256_sqrt_ps(a); }
  // a * b + c, one rounding.
  static Floats Fma(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  // Magnitude of a, sign of b.
  static Floats CopySign(Floats a, Floats b) {
    const Floats sign = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b));
  }
  // a < b ? x : y
  static Floats SelectLess(Floats a, Floats b, Floats x, Floats y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  // 2^n of t = 1.5 * 2^23 + n.
  static Floats PowerOfShifted(Floats t) {
    const Ints field = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(
        _mm256_add_epi32(field, _mm256_set1_epi32(0x3f800000)));
  }

  // Bit patterns without the sign; NaN and inf are largest.
  static Ints Magnitude(Floats a) {
    return _mm256_and_si256(_mm256_castps_si256(a),
                            _mm256_set1_epi32(INT32_MAX));
  }
  static Ints ZeroInts() { return _mm256_setzero_si256(); }
  static Ints MaxInts(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  static void StoreInts(int32_t* p, Ints v) {
    _mm256_storeu_si256(reinterpret_cast<Ints*>(p), v);
  }
  // Nearest integers, ties to even.
  static Ints Round(Floats a) { return _mm256_cvtps_epi32(a); }

  static Ints LoadDwords(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const Ints*>(p));
  }
  // The even and the odd one of two bf16 columns of 8 rows.
  static Floats EvenBf16(const uint32_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(LoadDwords(p), 16));
  }
  static Floats OddBf16(const uint32_t* p) {
    const Ints odd = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    return _mm256_castsi256_ps(_mm256_and_si256(LoadDwords(p), odd));
  }

  // 8 x 8, in place.
  static void Transpose(Floats (&rows)[8]) {
    Floats quads[8];  // quads[4 g + k]: columns k and 4 + k of rows 4 g ..
    for (int g = 0; g < 8; g += 4) {
      const Floats a = _mm256_unpacklo_ps(rows[g], rows[g + 1]);
      const Floats b = _mm256_unpackhi_ps(rows[g], rows[g + 1]);
      const Floats c = _mm256_unpacklo_ps(rows[g + 2], rows[g + 3]);
      const Floats d = _mm256_unpackhi_ps(rows[g + 2], rows[g + 3]);
      quads[g] = _mm256_shuffle_ps(a, c, 0x44);
      quads[g + 1] = _mm256_shuffle_ps(a, c, 0xee);
      quads[g + 2] = _mm256_shuffle_ps(b, d, 0x44);
      quads[g + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int k = 0; k < 4; ++k) {
      rows[k] = _mm256_permute2f128_ps(quads[k], quads[4 + k], 0x20);
      rows[4 + k] = _mm256_permute2f128_ps(quads[k], quads[4 + k], 0x31);
    }
  }

 private:
  static Ints Mask(Part part) {
    const Ints lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(part.count), lane);
  }
};

}  // namespace
}  // namespace deltafin
