// kernels/vector/tile_prefetch.h
//
// Software prefetch of weight tiles. Tiles are read in strictly ascending
// order, which AMD's prefetchers follow to the roof by themselves (there any
// prefetch instruction costs 10 to 25 %). Intel's do not: one thread on
// Sapphire Rapids reads bf16 tiles at 0.80 of a streaming read without and at
// more than 1.0 with it (bench/linear_kernel).
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltafin {
namespace {

// Steps of a tile kernel's inner loop: pairs or quads of columns.
constexpr int kTileSteps = 32;

// How far the prefetch is ahead of the first touch: 8 to 32 lines are equally
// good on Sapphire Rapids, whole tiles at once are not.
constexpr size_t kPrefetchDwords = 16 * 16;

// What one call of a tile kernel prefetches: each of its passes over the tile
// goes on from where the one before stopped, `step` dwords an inner step. So
// memory is busy during all the passes that a tile takes. May point past the
// end of the matrix.
struct TileAhead {
  const uint32_t* dwords = nullptr;
  size_t step = 0;

  TileAhead Pass(int pass) const {
    return {dwords + pass * kTileSteps * step, step};
  }

  // Inner step k. kDwords: of the tile in one step.
  template <size_t kDwords>
  [[gnu::always_inline]] void Prefetch(int k) const {
    const uint32_t* from = dwords + k * step;
#pragma GCC unroll 4
    for (size_t i = 0; i < kDwords; i += 16) __builtin_prefetch(from + i);
  }
};

// The part of pass number `pass` of num_passes over a tile. All passes together
// cover one tile, which begins so that the next tile's first pass, which
// touches all of its lines, finds them.
[[gnu::always_inline]] inline TileAhead AheadOf(const uint32_t* tile,
                                                size_t tile_dwords,
                                                int num_passes, int pass) {
  const size_t share = tile_dwords / num_passes;
  return {tile + kPrefetchDwords + tile_dwords - share + pass * share,
          share / kTileSteps};
}

[[gnu::always_inline]] inline bool PrefetchPays() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace
}  // namespace deltafin
