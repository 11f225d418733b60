// kernels/vector/linear_walk.h
//
// The walk over a spine matrix in memory order: row blocks, chunks of columns,
// tiles; a tile serves all tokens of a panel while it is in the first cache.
// Written once over a vector type and the tile kernels.
#pragma once

#include <cstring>

#include "kernels/linear_layout.h"
#include "kernels/vector/float_tile.h"
#include "kernels/vector/linear_prepare.h"
#include "kernels/vector/span_loop.h"
#include "kernels/vector/tile_prefetch.h"

namespace deltafin {
namespace {

// Tokens that share one pass over a row block: their sums are 32 KB.
constexpr int kPanelTokens = 32;

using TileFunction = void (*)(const uint32_t* tile, const int32_t* x,
                              TileAhead ahead, float* acc);

// Tile kernels for 1 .. kMaxTokens tokens, [0] without and [1] with prefetch.
template <class Tile, int kMaxTokens>
struct TileFunctions {
  TileFunction of[2][kMaxTokens + 1] = {};
  constexpr TileFunctions() { Fill<kMaxTokens>(); }

 private:
  template <int kTokens>
  constexpr void Fill() {
    of[0][kTokens] = Tile::template Run<kTokens, false>;
    of[1][kTokens] = Tile::template Run<kTokens, true>;
    if constexpr (kTokens > 1) Fill<kTokens - 1>();
  }
};

// A panel of tokens cut into groups that one tile kernel takes, of sizes that
// differ by at most one.
struct TokenGroups {
  int num_groups = 0;
  int begin[kPanelTokens + 1] = {};
  int num_passes = 0;  // over a tile, of all groups
};

template <class Tile, int kMaxTokens>
TokenGroups CutTokens(int num_tokens) {
  TokenGroups groups;
  groups.num_groups = (num_tokens + kMaxTokens - 1) / kMaxTokens;
  for (int g = 0; g < groups.num_groups; ++g) {
    groups.begin[g + 1] = num_tokens * (g + 1) / groups.num_groups;
    groups.num_passes += Tile::NumPasses(groups.begin[g + 1] - groups.begin[g]);
  }
  return groups;
}

// A panel's position in the prepared activations.
struct Panel {
  const int32_t* prepared = nullptr;  // token 0 of the panel, chunk 0
  size_t chunk_words = 0;             // from one chunk to the next
  int num_tokens = 0;
};

template <class Tile, int kMaxTokens>
class BlockWalk {
 public:
  // acc[tile][token][32] = the products of one row block.
  static void Run(const uint32_t* block, int num_tiles, int num_chunks,
                  WeightFormat format, const Panel& panel, float* acc) {
    const size_t tile_dwords = TileDwords(format);
    const size_t tile_sums = static_cast<size_t>(panel.num_tokens) * kTileRows;
    std::memset(acc, 0, num_tiles * tile_sums * sizeof(float));
    const TokenGroups groups = CutTokens<Tile, kMaxTokens>(panel.num_tokens);
    const bool prefetch = PrefetchPays();
    for (int c = 0; c < num_chunks; ++c) {
      const int32_t* x = panel.prepared + c * panel.chunk_words;
      for (int i = 0; i < num_tiles; ++i, block += tile_dwords) {
        MultiplyTile(block, x, groups, prefetch, tile_dwords,
                     acc + i * tile_sums);
      }
    }
  }

 private:
  static constexpr TileFunctions<Tile, kMaxTokens> kTiles{};

  static void MultiplyTile(const uint32_t* tile, const int32_t* x,
                           const TokenGroups& groups, bool prefetch,
                           size_t tile_dwords, float* acc) {
    int pass = 0;
    for (int g = 0; g < groups.num_groups; ++g) {
      const int begin = groups.begin[g];
      const int tokens = groups.begin[g + 1] - begin;
      kTiles.of[prefetch][tokens](
          tile, x + static_cast<size_t>(begin) * Tile::kTokenWords,
          AheadOf(tile, tile_dwords, groups.num_passes, pass),
          acc + begin * kTileRows);
      pass += Tile::NumPasses(tokens);
    }
  }
};

// Moves the sums of a row block to y, times the row scales if there are any.
// False: some y is inf or NaN.
template <class V>
bool StoreRows(const float* acc, int num_rows, int num_tokens,
               const float* row_scale, float* y, size_t ldy) {
  auto watch = V::Set(0.0f);  // becomes NaN with the first value not finite
  for (int t = 0; t < num_tokens; ++t) {
    float* row = y + t * ldy;
    ForEachVector<V>(num_rows, [&](int r, auto lanes) {
      const float* at =
          acc +
          (static_cast<size_t>(r / kTileRows) * num_tokens + t) * kTileRows +
          r % kTileRows;
      auto v = V::Load(at, lanes);
      if (row_scale != nullptr) v = V::Mul(v, V::Load(row_scale + r, lanes));
      watch = V::Fma(v, V::Set(0.0f), watch);
      V::Store(row + r, v, lanes);
    });
  }
  float lanes[V::kLanes];
  V::Store(lanes, watch);
  bool finite = true;
  for (const float lane : lanes) finite &= IsFiniteFloat(lane);
  return finite;
}

template <class V, class Tile, int kMaxTokens>
KernelStatus MultiplyRows(const LinearWeights& w, const int32_t* prepared,
                          int num_tokens, int row_begin, int row_end, float* y,
                          size_t ldy) {
  alignas(64) float acc[kRowBlock * kPanelTokens];
  const int num_chunks = NumChunks(w.format, w.cols);
  const bool scaled = w.format == WeightFormat::kInt8;
  Panel panel;
  panel.chunk_words = static_cast<size_t>(num_tokens) * Tile::kTokenWords;
  bool finite = true;
  for (int row = row_begin; row < row_end; row += kRowBlock) {
    const int index = row / kRowBlock;
    const int num_rows = BlockRows(w.rows, index);
    const uint32_t* block = static_cast<const uint32_t*>(w.tiles) +
                            BlockOffsetDwords(w.format, w.cols, index);
    for (int t = 0; t < num_tokens; t += kPanelTokens) {
      const int left = num_tokens - t;
      panel.num_tokens = left < kPanelTokens ? left : kPanelTokens;
      panel.prepared = prepared + static_cast<size_t>(t) * Tile::kTokenWords;
      BlockWalk<Tile, kMaxTokens>::Run(block, BlockTiles(num_rows), num_chunks,
                                       w.format, panel, acc);
      finite &= StoreRows<V>(acc, num_rows, panel.num_tokens,
                             scaled ? w.row_scale + row : nullptr,
                             y + t * ldy + row, ldy);
    }
  }
  return finite ? KernelStatus::kOk : KernelStatus::kOverflow;
}

// The entry points over a vector type, whose kTileTokens bf16 and f32 tokens go
// in one pass, and an int8 tile kernel.
template <class V, class Int8Tile>
struct VectorLinear {
  using Bf16Tile = FloatTile<V, Bf16Columns<V>>;
  using F32Tile = FloatTile<V, F32Columns<V>>;

  static size_t PreparedBytes(WeightFormat format, int cols, int num_tokens) {
    const size_t words = format == WeightFormat::kInt8
                             ? size_t{Int8Tile::kTokenWords}
                             : size_t{Bf16Tile::kTokenWords};
    return words * NumChunks(format, cols) * num_tokens * sizeof(int32_t);
  }

  static KernelStatus Prepare(WeightFormat format, const float* x, size_t ldx,
                              int num_tokens, int cols, void* out) {
    auto* words = static_cast<int32_t*>(out);
    return format == WeightFormat::kInt8
               ? PrepareInt8<V, Int8Tile>(x, ldx, num_tokens, cols, words)
               : PrepareFloats(x, ldx, num_tokens, cols, words);
  }

  static KernelStatus Multiply(const LinearWeights& w, const void* prepared,
                               int num_tokens, int row_begin, int row_end,
                               float* y, size_t ldy) {
    const auto* words = static_cast<const int32_t*>(prepared);
    switch (w.format) {
      case WeightFormat::kBf16:
        return MultiplyRows<V, Bf16Tile, V::kTileTokens>(
            w, words, num_tokens, row_begin, row_end, y, ldy);
      case WeightFormat::kF32:
        return MultiplyRows<V, F32Tile, V::kTileTokens>(
            w, words, num_tokens, row_begin, row_end, y, ldy);
      case WeightFormat::kInt8:
        break;
    }
    return MultiplyRows<V, Int8Tile, Int8Tile::kMaxTokens>(
        w, words, num_tokens, row_begin, row_end, y, ldy);
  }
};

}  // namespace
}  // namespace deltafin
