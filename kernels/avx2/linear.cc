// Spine matrix products in AVX2 with FMA.
#include "kernels/avx2/avx2_tables.h"
#include "kernels/avx2/simd.h"
#include "kernels/vector/linear_walk.h"

namespace deltafin {
namespace {

// One tile of 32 rows and 128 columns. Even and odd bytes of a weight dword
// are int16 pairs; X = 65536 hi + lo, each a signed int16, so two multiplies a
// half.
class Int8Tile {
 public:
  static constexpr int kMaxTokens = 4;

  // Words of one token's chunk.
  static constexpr int kPower = 0;      // 2^e
  static constexpr int kStartLow = 1;   // -128 * sum(lo): undoes the + 128
  static constexpr int kStartHigh = 2;  // -128 * sum(hi)
  static constexpr int kPairs = 4;  // [quad]{lo 0,2; lo 1,3; hi 0,2; hi 1,3}
  static constexpr int kTokenWords = kPairs + 4 * 32;

  static void Write(const Int8Activations& x, int32_t* words) {
    uint32_t low = 0, high = 0;
    for (int quad = 0; quad < 32; ++quad) {
      uint32_t lo[4], hi[4];
      for (int i = 0; i < 4; ++i) {
        const int32_t v = x.values[4 * quad + i];
        const auto l = static_cast<int16_t>(v);
        const int32_t h = (v - l) >> 16;
        low += static_cast<uint32_t>(int32_t{l});
        high += static_cast<uint32_t>(h);
        lo[i] = static_cast<uint16_t>(l);
        hi[i] = static_cast<uint16_t>(h);
      }
      int32_t* pairs = words + kPairs + 4 * quad;
      pairs[0] = static_cast<int32_t>(lo[0] | lo[2] << 16);
      pairs[1] = static_cast<int32_t>(lo[1] | lo[3] << 16);
      pairs[2] = static_cast<int32_t>(hi[0] | hi[2] << 16);
      pairs[3] = static_cast<int32_t>(hi[1] | hi[3] << 16);
    }
    words[kPower] = PowerBits(x.exponent);
    words[kStartLow] = static_cast<int32_t>(uint32_t{0} - 128 * low);
    words[kStartHigh] = static_cast<int32_t>(uint32_t{0} - 128 * high);
    words[3] = 0;
  }

  static constexpr int NumPasses(int tokens) { return 4 / NumOctets(tokens); }

  template <int kTokens, bool kPrefetch>
  static void Run(const uint32_t* tile, const int32_t* x, TileAhead ahead,
                  float* acc) {
    constexpr int kOctets = NumOctets(kTokens);
    for (int pass = 0; pass < NumPasses(kTokens); ++pass) {
      const int r = pass * 8 * kOctets;
      AddRows<kTokens, kOctets, kPrefetch>(tile + r, x, ahead.Pass(pass),
                                           acc + r);
    }
  }

 private:
  // Octets of rows in one pass.
  static constexpr int NumOctets(int tokens) { return tokens == 1 ? 4 : 1; }

  template <int kTokens, int kOctets, bool kPrefetch>
  [[gnu::always_inline]] static void AddRows(const uint32_t* tile,
                                             const int32_t* x, TileAhead ahead,
                                             float* acc) {
    __m256i low[kTokens][kOctets], high[kTokens][kOctets];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      for (int o = 0; o < kOctets; ++o) {
        low[t][o] = _mm256_set1_epi32(x[t * kTokenWords + kStartLow]);
        high[t][o] = _mm256_set1_epi32(x[t * kTokenWords + kStartHigh]);
      }
    }
#pragma GCC unroll 1
    for (int quad = 0; quad < 32; ++quad) {
      if constexpr (kPrefetch) ahead.Prefetch<32>(quad);
#pragma GCC unroll 4
      for (int o = 0; o < kOctets; ++o) {
        const __m256i w = Simd::LoadDwords(tile + quad * kTileRows + 8 * o);
        const __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(255));
        const __m256i odd = _mm256_srli_epi16(w, 8);
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const int32_t* pairs = x + t * kTokenWords + kPairs + 4 * quad;
          low[t][o] = AddProducts(low[t][o], even, pairs[0], odd, pairs[1]);
          high[t][o] = AddProducts(high[t][o], even, pairs[2], odd, pairs[3]);
        }
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const __m256 power =
          _mm256_castsi256_ps(_mm256_set1_epi32(x[t * kTokenWords + kPower]));
      for (int o = 0; o < kOctets; ++o) {
        float* at = acc + t * kTileRows + 8 * o;
        const __m256 sum = RoundSum(low[t][o], high[t][o]);
        Simd::Store(at, Simd::Fma(sum, power, Simd::Load(at)));
      }
    }
  }

  [[gnu::always_inline]] static __m256i AddProducts(__m256i sum, __m256i even,
                                                    int32_t x02, __m256i odd,
                                                    int32_t x13) {
    sum =
        _mm256_add_epi32(sum, _mm256_madd_epi16(even, _mm256_set1_epi32(x02)));
    return _mm256_add_epi32(sum,
                            _mm256_madd_epi16(odd, _mm256_set1_epi32(x13)));
  }

  // f32 of the exact sum, one rounding (section 5).
  [[gnu::always_inline]] static __m256 RoundSum(__m256i low, __m256i high) {
    const __m256i carried = _mm256_add_epi32(high, _mm256_srai_epi32(low, 16));
    const __m256i rest = _mm256_and_si256(low, _mm256_set1_epi32(0xffff));
    return Simd::Fma(_mm256_cvtepi32_ps(carried), Simd::Set(65536.0f),
                     _mm256_cvtepi32_ps(rest));
  }
};

using Linear = VectorLinear<Simd, Int8Tile>;

}  // namespace

const LinearKernel kAvx2LinearKernel = {Linear::PreparedBytes, Linear::Prepare,
                                        Linear::Multiply};

}  // namespace deltafin
