// kernels/tile_walk.h
//
// One row block of an MXFP4 matrix in tile order against T tokens, over the
// tile function of an instruction set. Included by the files of one target
// each; `Tile` lives in an anonymous namespace there, so nothing here has
// external linkage. Private to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/activation_limbs.h"
#include "kernels/mxfp4.h"

namespace deltafin {

inline constexpr int kCacheLine = 64;

// Tile must have
//   template <int B, int G>
//   static void Add(const uint8_t* tile, const int32_t* limbs, float* y);
// which adds G column groups of a full tile times a block of B tokens to
// y[b * 256 + r], r < 32, and is inlined.
//
// kPrefetchBytes: how far ahead of the tile lines are asked for while few
// tokens leave the walk waiting for memory; 0: never.
template <class Tile, int kPrefetchBytes>
class TileWalk {
 public:
  static void MultiplyBlock(const uint8_t* tiles, int num_rows, int cols,
                            int num_tokens, const int32_t* prepared, float* y) {
    std::memset(y, 0, sizeof(float) * kTileBlockRows * num_tokens);
    const TileWalk walk(cols, num_tokens, prepared, y);
    for (int chunk = 0; chunk * kTileColumns < cols; ++chunk) {
      const bool half = cols - chunk * kTileColumns < kTileColumns;
      if (half || num_rows % kTileRows != 0) {
        tiles = walk.RaggedColumn(tiles, num_rows, half ? 1 : 2, chunk);
      } else if (num_tokens == 1) {
        tiles = walk.template FullColumn<1>(tiles, num_rows, chunk);
      } else if (num_tokens == 2) {
        tiles = walk.template FullColumn<2>(tiles, num_rows, chunk);
      } else {
        tiles = walk.template FullColumn<0>(tiles, num_rows, chunk);
      }
    }
  }

 private:
  TileWalk(int cols, int num_tokens, const int32_t* prepared, float* y)
      : token_words_(static_cast<size_t>(cols / kMxfp4Group) * kGroupWords),
        num_tokens_(num_tokens),
        prepared_(prepared),
        y_(y) {}

  // The tiles of one column chunk, all of them full. kTokens: how many tokens
  // there are, 0 for any number.
  template <int kTokens>
  const uint8_t* FullColumn(const uint8_t* tiles, int num_rows,
                            int chunk) const {
    for (int row = 0; row < num_rows; row += kTileRows, tiles += kTileBytes) {
      if constexpr (kTokens == 0) {
        AllTokens<2>(tiles, chunk, y_ + row);
      } else {
        Prefetch(tiles);
        Tile::template Add<kTokens, 2>(tiles, Limbs(0, kTokens, chunk),
                                       y_ + row);
      }
    }
    return tiles;
  }

  static void Prefetch(const uint8_t* tile) {
    if constexpr (kPrefetchBytes > 0) {
      for (int i = 0; i < kTileBytes; i += kCacheLine) {
        __builtin_prefetch(tile + kPrefetchBytes + i);
      }
    }
  }

  // Kept apart from the full tiles, whose loop GCC 12 otherwise spills.
  __attribute__((noinline)) const uint8_t* RaggedColumn(const uint8_t* tiles,
                                                        int num_rows,
                                                        int groups,
                                                        int chunk) const {
    alignas(64) uint8_t full[kTileBytes];
    for (int row = 0; row < num_rows; row += kTileRows) {
      const int left = num_rows - row;
      const int rows = left < kTileRows ? left : kTileRows;
      Expand(tiles, rows, groups, full);
      if (groups == 1) {
        AllTokens<1>(full, chunk, y_ + row);
      } else {
        AllTokens<2>(full, chunk, y_ + row);
      }
      tiles += rows * groups * kGroupRowBytes;
    }
    return tiles;
  }

  template <int G>
  void AllTokens(const uint8_t* tile, int chunk, float* y) const {
    int t = 0;
    for (; t + 1 < num_tokens_; t += 2) {
      Tile::template Add<2, G>(tile, Limbs(t, 2, chunk),
                               y + t * kTileBlockRows);
    }
    if (t < num_tokens_) {
      Tile::template Add<1, G>(tile, Limbs(t, 1, chunk),
                               y + t * kTileBlockRows);
    }
  }

  const int32_t* Limbs(int token, int block_tokens, int chunk) const {
    return prepared_ + token * token_words_ +
           chunk * (kTileGroups * kGroupWords * block_tokens);
  }

  // A ragged tile as a full one: missing rows and the missing group are zero.
  static void Expand(const uint8_t* tile, int rows, int groups, uint8_t* full) {
    std::memset(full, 0, kTileBytes);
    for (int g = 0; g < groups; ++g, tile += rows) {
      std::memcpy(full + g * kTileRows, tile, rows);
    }
    uint8_t* octet = full + kTileScaleBytes;
    for (int q = 0; q < groups * kOctetsPerGroup; ++q, tile += 4 * rows) {
      std::memcpy(octet + q * kOctetBytes, tile, 4 * rows);
    }
  }

  const size_t token_words_;
  const int num_tokens_;
  const int32_t* const prepared_;
  float* const y_;
};

}  // namespace deltafin
