// Spine matrix products in NEON, any ARMv8-A.
#include "kernels/neon/linear_int8.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/vector/linear_walk.h"

namespace deltafin {
namespace {

// Byte products are widened to int16 (at most 127 * 128), then added in pairs.
struct WideningBytes {
  struct Sum {
    int32x4_t low;   // rows 0, 0, 1, 1
    int32x4_t high;  // rows 2, 2, 3, 3
  };
  static constexpr int NumVectors(int tokens) { return tokens > 1 ? 1 : 4; }

  [[gnu::always_inline]] static void Add(Sum& sum, int8x16_t w,
                                         int8x16_t limb) {
    sum.low = vpadalq_s16(sum.low, vmull_s8(vget_low_s8(w), vget_low_s8(limb)));
    sum.high = vpadalq_s16(sum.high, vmull_high_s8(w, limb));
  }
  [[gnu::always_inline]] static int32x4_t Total(const Sum& sum) {
    return vpaddq_s32(sum.low, sum.high);
  }
};

using Linear = VectorLinear<Simd, Int8Tile<WideningBytes>>;

}  // namespace

const LinearKernel kNeonLinearKernel = {Linear::PreparedBytes, Linear::Prepare,
                                        Linear::Multiply};

}  // namespace deltafin
