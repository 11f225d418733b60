// Spine matrix products in NEON with the 8-bit dot product.
#include "kernels/neon/linear_int8.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/vector/linear_walk.h"

namespace deltafin {
namespace {

struct DotBytes {
  using Sum = int32x4_t;
  static constexpr int NumVectors(int tokens) { return tokens > 1 ? 2 : 8; }

  [[gnu::always_inline]] static void Add(Sum& sum, int8x16_t w,
                                         int8x16_t limb) {
    sum = vdotq_s32(sum, w, limb);
  }
  [[gnu::always_inline]] static int32x4_t Total(Sum sum) { return sum; }
};

using Linear = VectorLinear<Simd, Int8Tile<DotBytes>>;

}  // namespace

const LinearKernel kNeonDotLinearKernel = {Linear::PreparedBytes,
                                           Linear::Prepare, Linear::Multiply};

}  // namespace deltafin
