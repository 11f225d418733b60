// Routed experts with AVX2 and FMA. Built with the flags of this target:
// everything here has internal linkage but the table.
#include <immintrin.h>

#include "kernels/activation_limbs.h"
#include "kernels/avx2/avx2_tables.h"
#include "kernels/expert_walk.h"
#include "kernels/fixed_point.h"
#include "kernels/mxfp4.h"
#include "kernels/tile_walk.h"

namespace deltafin {
namespace {

// bench/expert_kernel on a Sapphire Rapids guest, share of a streaming read at
// one token: 0.67, without 0.39. Prefetch loses on Zen 4.
constexpr int kPrefetchBytes = 1536;

constexpr int kLaneRows = 8;  // rows in a register

__m256i Load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// Orders the sums of one step before those of the next. Without it GCC 12
// gathers the broadcasts of many steps and spills them (26 against 34 GMAC/s).
[[gnu::always_inline]] inline void Settle(__m256i (&limb)[kLimbs]) {
  asm volatile("" : "+x"(limb[0]), "+x"(limb[1]), "+x"(limb[2]));
}

// Sums of R registers of rows for B tokens, in int16: 16 columns a lane. The
// start words undo the +12 of the codes, so that the end value is at most
// 12 * 128 * 16 = 24,576; wrap-around in between cannot show.
template <int R, int B>
struct ShortSums {
  __m256i limb[R][B][kLimbs];

  __attribute__((always_inline)) void Start(const int32_t* group) {
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) {
#pragma GCC unroll 3
      for (int l = 0; l < kLimbs; ++l) {
        const __m256i start = _mm256_set1_epi32(group[(kStart16 + l) * B + b]);
        for (int r = 0; r < R; ++r) limb[r][b][l] = start;
      }
    }
  }

  // Adds four columns: `octet` holds one dword a row, codes in its low or high
  // nibbles.
  template <bool kHigh>
  __attribute__((always_inline)) void Add(const uint8_t* octet, __m256i table,
                                          const int32_t* limbs) {
    const __m256i mask = _mm256_set1_epi8(15);
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b, limbs += kLimbs) {
      const __m256i x0 = _mm256_set1_epi32(limbs[0]);
      const __m256i x1 = _mm256_set1_epi32(limbs[1]);
      const __m256i x2 = _mm256_set1_epi32(limbs[2]);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        const __m256i v = Load(octet + 32 * r);
        const __m256i nibbles =
            _mm256_and_si256(kHigh ? _mm256_srli_epi16(v, 4) : v, mask);
        const __m256i code = _mm256_shuffle_epi8(table, nibbles);
        __m256i(&a)[kLimbs] = limb[r][b];
        a[0] = _mm256_add_epi16(a[0], _mm256_maddubs_epi16(code, x0));
        a[1] = _mm256_add_epi16(a[1], _mm256_maddubs_epi16(code, x1));
        a[2] = _mm256_add_epi16(a[2], _mm256_maddubs_epi16(code, x2));
        Settle(a);
      }
    }
  }

  __m256 Combined(int r, int b) const {
    const __m256i* a = limb[r][b];
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i low = _mm256_madd_epi16(a[0], one);
    const __m256i middle = _mm256_madd_epi16(a[1], _mm256_set1_epi16(256));
    const __m256i high = _mm256_slli_epi32(_mm256_madd_epi16(a[2], one), 16);
    return _mm256_cvtepi32_ps(
        _mm256_add_epi32(_mm256_add_epi32(low, middle), high));
  }
};

// Factors 2^(e + s - 128) of eight rows for token b.
template <int B>
__m256 Factors(const uint8_t* scales, const int32_t* group, int b) {
  const __m128i s = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
  const __m128i add = _mm_set1_epi32(group[kAddByte * B + b]);
  const __m128i sub = _mm_set1_epi32(group[kSubByte * B + b]);
  const __m128i fields = _mm_subs_epu8(_mm_adds_epu8(s, add), sub);
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu8_epi32(fields), 23));
}

struct Tile {
  template <int B, int G>
  __attribute__((always_inline)) static void Add(const uint8_t* tile,
                                                 const int32_t* group,
                                                 float* y) {
    constexpr int kRegisters = B == 1 ? 2 : 1;  // 6 accumulators either way
    for (int g = 0; g < G; ++g, group += kGroupWords * B) {
      const uint8_t* scales = tile + g * kTileRows;
      const uint8_t* octets =
          tile + kTileScaleBytes + g * kOctetsPerGroup * kOctetBytes;
#pragma GCC unroll 1
      for (int row = 0; row < kTileRows; row += kRegisters * kLaneRows) {
        AddRows<kRegisters, B>(scales + row, octets + 4 * row, group, y + row);
      }
    }
  }

 private:
  template <int R, int B>
  __attribute__((always_inline)) static void AddRows(const uint8_t* scales,
                                                     const uint8_t* octet,
                                                     const int32_t* group,
                                                     float* y) {
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShiftedCode)));
    ShortSums<R, B> sums;
    sums.Start(group);
    const int32_t* limbs = group + kHeadWords * B;
#pragma GCC unroll 4
    for (int q = 0; q < kOctetsPerGroup; ++q) {
      sums.template Add<false>(octet, table, limbs);
      sums.template Add<true>(octet, table, limbs + B * kLimbs);
      limbs += 2 * B * kLimbs;
      octet += kOctetBytes;
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) {
        float* out = y + b * kTileBlockRows + r * kLaneRows;
        const __m256 factors = Factors<B>(scales + r * kLaneRows, group, b);
        _mm256_store_ps(out, _mm256_fmadd_ps(sums.Combined(r, b), factors,
                                             _mm256_load_ps(out)));
      }
    }
  }
};

__m256i Magnitude(__m256 v) {
  return _mm256_and_si256(_mm256_castps_si256(v),
                          _mm256_set1_epi32(kMagnitudeMask));
}

uint32_t Largest(__m256i v) {
  __m128i m =
      _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// Sums of lanes 0, 1, 2, 3 and 4, 5, 6, 7.
void HalfSums(__m256i v, int sums[2]) {
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
  sums[0] = _mm256_extract_epi32(v, 0);
  sums[1] = _mm256_extract_epi32(v, 4);
}

__m256i SumOfFour(const __m256i v[4]) {
  return _mm256_add_epi32(_mm256_add_epi32(v[0], v[1]),
                          _mm256_add_epi32(v[2], v[3]));
}

// Takes the lowest limb off x [32 columns] and stores its eight words.
void StoreLimb(__m256i x[4], int stride, int32_t* out, int sums[2]) {
  __m256i limb[4];
  for (int j = 0; j < 4; ++j) {
    limb[j] = _mm256_srai_epi32(_mm256_slli_epi32(x[j], 24), 24);
    x[j] = _mm256_srai_epi32(_mm256_add_epi32(x[j], _mm256_set1_epi32(128)), 8);
  }
  HalfSums(SumOfFour(limb), sums);
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(limb[0], limb[1]),
                         _mm256_packs_epi32(limb[2], limb[3]));
  const __m256i in_order = _mm256_permutevar8x32_epi32(
      packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  // Columns 8q + {0,2,4,6} then 8q + {1,3,5,7}.
  const __m256i nibble_order =
      _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0,
                       2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  alignas(32) int32_t words[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words),
                     _mm256_shuffle_epi8(in_order, nibble_order));
  for (int w = 0; w < 8; ++w) out[w * stride] = words[w];
}

// One group of 32 columns; false: inf or NaN inside.
bool QuantizeGroup(const float* x, int block_tokens, int lane, int32_t* group) {
  __m256 v[4];
  __m256i largest = _mm256_setzero_si256();
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm256_loadu_ps(x + 8 * j);
    largest = _mm256_max_epu32(largest, Magnitude(v[j]));
  }
  const uint32_t bits = Largest(largest);
  if (bits >= kInfinityBits) return false;
  int field = static_cast<int>((bits + kMantissaCarry) >> 23);
  if (field < kLowestExponentField) field = kLowestExponentField;
  const __m256 scale =
      _mm256_castsi256_ps(_mm256_set1_epi32((276 - field) << 23));
  __m256i q[4];
  for (int j = 0; j < 4; ++j) {
    q[j] = _mm256_cvtps_epi32(_mm256_mul_ps(v[j], scale));
  }
  int halves[2];
  HalfSums(SumOfFour(q), halves);
  int limb_sums[kLimbs][2];
  int32_t* limbs = group + kHeadWords * block_tokens + lane * kLimbs;
  for (int l = 0; l < kLimbs; ++l) {
    StoreLimb(q, kLimbs * block_tokens, limbs + l, limb_sums[l]);
  }
  WriteLimbHead(field - kExponentOffset,
                static_cast<uint32_t>(halves[0]) + halves[1], limb_sums,
                block_tokens, lane, group);
  return true;
}

bool Quantize(const float* x, int cols, int block_tokens, int lane,
              int32_t* out) {
  for (int c = 0; c < cols; c += kMxfp4Group) {
    if (!QuantizeGroup(x + c, block_tokens, lane, out)) return false;
    out += kGroupWords * block_tokens;
  }
  return true;
}

bool AllFinite(const float* y, int n) {
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 8) {
    largest = _mm256_max_epu32(largest, Magnitude(_mm256_loadu_ps(y + i)));
  }
  return Largest(largest) < kInfinityBits;
}

// Adds rhe(v) to four sums. v = h * 2^32 + l with h = rhe(v * 2^-32), |h| <=
// 2^23 and |l| <= 2^31; adding 1.5 * 2^52 rounds both and leaves the integer in
// the low bits. The low 32 bits of that number are zero, so a shift leaves h.
void AddRounded(__m256d v, int64_t* sums) {
  const __m256d magic = _mm256_set1_pd(0x1.8p52);
  const __m256d h = _mm256_fmadd_pd(v, _mm256_set1_pd(0x1p-32), magic);
  const __m256d rest =
      _mm256_fnmadd_pd(_mm256_sub_pd(h, magic), _mm256_set1_pd(0x1p32), v);
  const __m256i low =
      _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(rest, magic)),
                       _mm256_castpd_si256(magic));
  const __m256i term =
      _mm256_add_epi64(_mm256_slli_epi64(_mm256_castpd_si256(h), 32), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums),
                      _mm256_add_epi64(term, Load(sums)));
}

// |w * y| grows with |y| and NaN has the largest bits, so one test of the
// largest magnitude covers the run. weight * 2^40 is exact.
bool AddFixed(float weight, const float* y, int n, int64_t* sums) {
  const __m256d w = _mm256_set1_pd(static_cast<double>(weight) * kFixedScale);
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 8) {
    const __m256 v = _mm256_loadu_ps(y + i);
    largest = _mm256_max_epu32(largest, Magnitude(v));
    AddRounded(_mm256_mul_pd(w, _mm256_cvtps_pd(_mm256_castps256_ps128(v))),
               sums + i);
    AddRounded(_mm256_mul_pd(w, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))),
               sums + i + 4);
  }
  const float top = _mm_cvtss_f32(
      _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(Largest(largest)))));
  const double product = static_cast<double>(weight) * top;
  return (product < 0 ? -product : product) < kFixedLimit;
}

}  // namespace

constinit const ExpertOperations kAvx2ExpertOperations = {
    kGroupWords, Quantize, TileWalk<Tile, 0>::MultiplyBlock,
    AllFinite,   AddFixed, &kAvx2ElementwiseKernel,
};
constinit const ExpertOperations kAvx2PrefetchExpertOperations = {
    kGroupWords, Quantize, TileWalk<Tile, kPrefetchBytes>::MultiplyBlock,
    AllFinite,   AddFixed, &kAvx2ElementwiseKernel,
};

}  // namespace deltafin
