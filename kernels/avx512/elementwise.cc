// Elementwise functions of the spine in AVX-512.
#include "kernels/vector/elementwise.h"

#include "kernels/avx512/avx512_tables.h"
#include "kernels/avx512/simd.h"
#include "kernels/fixed_point.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/kda.h"

namespace deltafin {
namespace {

using Elementwise = VectorElementwise<Simd>;

// One conversion, one rounding; * 2^-40 is exact.
void FromFixed(const int64_t* sums, int n, float* out) {
  const __m256 inverse = _mm256_set1_ps(kFixedInverse);
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm512_cvtepi64_ps(_mm512_loadu_si512(sums + i));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(v, inverse));
  }
  for (; i < n; ++i) out[i] = static_cast<float>(sums[i]) * kFixedInverse;
}

}  // namespace

const ElementwiseKernel kAvx512ElementwiseKernel = {
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
