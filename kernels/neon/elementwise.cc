// Elementwise functions of the spine in NEON.
#include "kernels/vector/elementwise.h"

#include "kernels/fixed_point.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/neon/simd.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/kda.h"

namespace deltafin {
namespace {

using Elementwise = VectorElementwise<Simd>;

// One conversion, one rounding; * 2^-40 is exact. There is no vector form.
void FromFixed(const int64_t* sums, int n, float* out) {
  for (int i = 0; i < n; ++i) {
    out[i] = static_cast<float>(sums[i]) * kFixedInverse;
  }
}

}  // namespace

const ElementwiseKernel kNeonElementwiseKernel = {
    Elementwise::Exp,
    Elementwise::Sigmoid,
    Elementwise::Silu,
    Elementwise::Situ,
    Elementwise::RmsNorm,
    Elementwise::L2Norm,
    Elementwise::Add,
    Elementwise::Multiply,
    Elementwise::DotLanes,
    Elementwise::ShortConv,
    Elementwise::KdaDecay,
    VectorKda<Simd>::Step,
    VectorAttention<Simd>::Run,
    VectorAttention<Simd>::Residual,
    FromFixed,
    Elementwise::AddFixed,
};

}  // namespace deltafin
