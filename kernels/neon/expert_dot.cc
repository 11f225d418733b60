// Routed experts with the 8-bit dot product. Built with the flags of this
// target: everything here has internal linkage but the table.
#include "kernels/expert_walk.h"
#include "kernels/neon/expert_tokens.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/tile_walk.h"

namespace deltafin {
namespace {

template <int B>
struct DotSums {
  int32x4_t limb[B][kLimbs];

  [[gnu::always_inline]] void Start() {
    for (auto& token : limb) {
      for (auto& sum : token) sum = vdupq_n_s32(0);
    }
  }

  [[gnu::always_inline]] void Add(int8x16_t codes, const int32_t* limbs) {
    for (int b = 0; b < B; ++b) {
      for (int l = 0; l < kLimbs; ++l) {
        limb[b][l] = vdotq_s32(limb[b][l], codes,
                               neon::LimbWord(limbs + b * kLimbs + l));
      }
    }
  }

  [[gnu::always_inline]] int32x4_t Combined(int b) const {
    const int32x4_t* a = limb[b];
    return vaddq_s32(vaddq_s32(a[0], vshlq_n_s32(a[1], 8)),
                     vshlq_n_s32(a[2], 16));
  }
};

// A class of this file, so that the walk over it is one, too.
struct Tile : neon::TileOfFourRows<DotSums> {};

}  // namespace

constinit const ExpertOperations kNeonDotExpertOperations = {
    kGroupWords,     neon::Quantize, TileWalk<Tile, 0>::MultiplyBlock,
    neon::AllFinite, neon::AddFixed, &kNeonElementwiseKernel,
};

}  // namespace deltafin
