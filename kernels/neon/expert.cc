// Routed experts on any 64-bit ARM machine.
#include "kernels/expert_walk.h"
#include "kernels/neon/expert_tokens.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/tile_walk.h"

namespace deltafin {
namespace {

// Eight products a lane stay below 12,288 in int16; one pairwise addition at
// the end.
template <int B>
struct ShortSums {
  int16x8_t limb[B][kLimbs][2];

  [[gnu::always_inline]] void Start() {
    for (auto& token : limb) {
      for (auto& half : token) half[0] = half[1] = vdupq_n_s16(0);
    }
  }

  [[gnu::always_inline]] void Add(int8x16_t codes, const int32_t* limbs) {
    for (int b = 0; b < B; ++b) {
      for (int l = 0; l < kLimbs; ++l) {
        const int8x16_t x = neon::LimbWord(limbs + b * kLimbs + l);
        int16x8_t* a = limb[b][l];
        a[0] = vmlal_s8(a[0], vget_low_s8(codes), vget_low_s8(x));
        a[1] = vmlal_high_s8(a[1], codes, x);
      }
    }
  }

  [[gnu::always_inline]] int32x4_t Combined(int b) const {
    int32x4_t sum = vdupq_n_s32(0);
    for (int l = kLimbs - 1; l >= 0; --l) {
      const int16x8_t* a = limb[b][l];
      sum = vaddq_s32(vshlq_n_s32(sum, 8),
                      vpaddq_s32(vpaddlq_s16(a[0]), vpaddlq_s16(a[1])));
    }
    return sum;
  }
};

// A class of this file, so that the walk over it is one, too.
struct Tile : neon::TileOfFourRows<ShortSums> {};

}  // namespace

constinit const ExpertOperations kNeonExpertOperations = {
    kGroupWords,     neon::Quantize, TileWalk<Tile, 0>::MultiplyBlock,
    neon::AllFinite, neon::AddFixed, &kNeonElementwiseKernel,
};

}  // namespace deltafin
