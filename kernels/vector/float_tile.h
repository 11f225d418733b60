// kernels/vector/float_tile.h
//
// One tile of 32 rows and 64 columns of bf16 or f32 weights against a few
// tokens (docs/numerics.md section 4) over a vector type: lanes are rows, every
// activation is broadcast.
#pragma once

#include <cstdint>

#include "kernels/linear_layout.h"
#include "kernels/vector/span_loop.h"
#include "kernels/vector/tile_prefetch.h"

namespace deltafin {
namespace {

// Column 2 * pair + kOdd of V::kLanes rows from row r of a tile.
template <class V>
struct Bf16Columns {
  static constexpr int kPairDwords = kTileRows;

  template <int kOdd>
  [[gnu::always_inline]] static typename V::Floats Load(const uint32_t* tile,
                                                        int pair, int r) {
    const uint32_t* dwords = tile + pair * kTileRows + r;
    return kOdd ? V::OddBf16(dwords) : V::EvenBf16(dwords);
  }
};

template <class V>
struct F32Columns {
  static constexpr int kPairDwords = 2 * kTileRows;

  template <int kOdd>
  [[gnu::always_inline]] static typename V::Floats Load(const uint32_t* tile,
                                                        int pair, int r) {
    const uint32_t* dwords = tile + (2 * pair + kOdd) * kTileRows + r;
    return V::Load(reinterpret_cast<const float*>(dwords));
  }
};

template <class V, class Columns>
class FloatTile {
 public:
  static constexpr int kColumns = 64;
  // Words of one token's prepared chunk: the 64 activations.
  static constexpr int kTokenWords = kColumns;

  // Passes over the tile that Run makes.
  static constexpr int NumPasses(int tokens) {
    return kTileRows / (NumVectors(tokens) * V::kLanes);
  }

  // acc[t * 32 + r] += the chunk's chain. x: [kTokens][kTokenWords].
  template <int kTokens, bool kPrefetch>
  static void Run(const uint32_t* tile, const int32_t* x, TileAhead ahead,
                  float* acc) {
    constexpr int kVectors = NumVectors(kTokens);
    const auto* activations = reinterpret_cast<const float*>(x);
    for (int pass = 0; pass < NumPasses(kTokens); ++pass) {
      const int r = pass * kVectors * V::kLanes;
      AddRows<kTokens, kVectors, kPrefetch>(tile, activations, r,
                                            ahead.Pass(pass), acc);
    }
  }

 private:
  using Floats = typename V::Floats;

  // One token takes all the rows it can, more tokens share the registers.
  static constexpr int NumVectors(int tokens) {
    return tokens == 1 ? V::kSoloVectors : V::kTileVectors;
  }

  template <int kTokens, int kVectors, bool kPrefetch>
  [[gnu::always_inline]] static void AddRows(const uint32_t* tile,
                                             const float* x, int r,
                                             TileAhead ahead, float* acc) {
    Floats sums[kTokens][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) sums[t][m] = V::Set(0.0f);
    }
#pragma GCC unroll 2
    for (int pair = 0; pair < kColumns / 2; ++pair) {
      if constexpr (kPrefetch) {
        ahead.template Prefetch<Columns::kPairDwords>(pair);
      }
      AddColumn<kTokens, kVectors, 0>(tile, x, pair, r, sums);
      AddColumn<kTokens, kVectors, 1>(tile, x, pair, r, sums);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        float* at = acc + t * kTileRows + r + m * V::kLanes;
        V::Store(at, V::Add(V::Load(at), sums[t][m]));
      }
    }
  }

  template <int kTokens, int kVectors, int kOdd>
  [[gnu::always_inline]] static void AddColumn(
      const uint32_t* tile, const float* x, int pair, int r,
      Floats (&sums)[kTokens][kVectors]) {
    Floats w[kVectors];
#pragma GCC unroll 8
    for (int m = 0; m < kVectors; ++m) {
      w[m] = Columns::template Load<kOdd>(tile, pair, r + m * V::kLanes);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Floats broadcast = V::Set(x[t * kTokenWords + 2 * pair + kOdd]);
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        sums[t][m] = V::Fma(w[m], broadcast, sums[t][m]);
      }
    }
  }
};

}  // namespace
}  // namespace deltafin
