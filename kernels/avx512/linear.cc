// Spine matrix products in AVX-512 with VNNI.
#include "kernels/avx512/avx512_tables.h"
#include "kernels/avx512/simd.h"
#include "kernels/vector/byte_limbs.h"
#include "kernels/vector/linear_walk.h"

namespace deltafin {
namespace {

// One tile of 32 rows and 128 columns: three byte limbs, so six independent
// chains a token.
class Int8Tile : public ByteLimbs {
 public:
  static constexpr int kMaxTokens = 2;

  static constexpr int NumPasses(int /*tokens*/) { return 1; }

  template <int kTokens, bool kPrefetch>
  static void Run(const uint32_t* tile, const int32_t* x, TileAhead ahead,
                  float* acc) {
    __m512i sums[kTokens][kHalves][3];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) Start(x + t * kTokenWords, sums[t]);
#pragma GCC unroll 4
    for (int quad = 0; quad < 32; ++quad) {
      if constexpr (kPrefetch) ahead.Prefetch<32>(quad);
      const __m512i w[kHalves] = {_mm512_loadu_si512(tile + quad * 32),
                                  _mm512_loadu_si512(tile + quad * 32 + 16)};
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const int32_t* limbs = x + t * kTokenWords + kLo + quad;
#pragma GCC unroll 3
        for (int l = 0; l < 3; ++l) {
          const __m512i limb = _mm512_set1_epi32(limbs[32 * l]);
          for (int p = 0; p < kHalves; ++p) {
            sums[t][p][l] = _mm512_dpbusd_epi32(sums[t][p][l], w[p], limb);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const __m512 power =
          _mm512_castsi512_ps(_mm512_set1_epi32(x[t * kTokenWords + kPower]));
      for (int p = 0; p < kHalves; ++p) {
        float* at = acc + t * kTileRows + 16 * p;
        const __m512 sum = RoundSum(sums[t][p]);
        Simd::Store(at, Simd::Fma(sum, power, Simd::Load(at)));
      }
    }
  }

 private:
  static constexpr int kHalves = 2;  // of the 32 rows

  [[gnu::always_inline]] static void Start(const int32_t* words,
                                           __m512i (&sums)[kHalves][3]) {
    for (int p = 0; p < kHalves; ++p) {
      sums[p][0] = _mm512_set1_epi32(words[kStartLow]);
      sums[p][1] = _mm512_setzero_si512();
      sums[p][2] = _mm512_set1_epi32(words[kStartHigh]);
    }
  }

  // f32 of the exact sum, one rounding (section 5).
  [[gnu::always_inline]] static __m512 RoundSum(const __m512i (&limbs)[3]) {
    const __m512i low =
        _mm512_add_epi32(limbs[0], _mm512_slli_epi32(limbs[1], 8));
    const __m512i high = _mm512_add_epi32(limbs[2], _mm512_srai_epi32(low, 16));
    const __m512i rest = _mm512_and_si512(low, _mm512_set1_epi32(0xffff));
    return Simd::Fma(_mm512_cvtepi32_ps(high), Simd::Set(65536.0f),
                     _mm512_cvtepi32_ps(rest));
  }
};

using Linear = VectorLinear<Simd, Int8Tile>;

}  // namespace

const LinearKernel kAvx512LinearKernel = {Linear::PreparedBytes,
                                          Linear::Prepare, Linear::Multiply};

}  // namespace deltafin
