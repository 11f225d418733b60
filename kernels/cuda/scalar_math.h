// kernels/cuda/scalar_math.h
//
// SiTU and what it needs (docs/numerics.md section 6), one value at a time.
// Built with -fmad=false (nvcc) or -ffp-contract=off: nothing is fused but
// fmaf. Private to kernels/cuda/.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_device.h"
#include "kernels/expert_weights.h"

namespace deltafin::cuda {

DELTAFIN_HOST_DEVICE uint32_t BitsOf(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

DELTAFIN_HOST_DEVICE float FloatOf(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof(f));
  return f;
}

DELTAFIN_HOST_DEVICE float Exp(float x) {
  constexpr float kShift = 12582912.0f;  // rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  const float t = fmaf(x, 0x1.715476p+0f, kShift);
  const float n = t - kShift;
  float r = fmaf(n, -0x1.62e430p-1f, x);
  r = fmaf(n, 0x1.05c610p-29f, r);
  float q = fmaf(0x1.6a264ap-10f, r, 0x1.123988p-7f);
  q = fmaf(q, r, 0x1.5558ecp-5f);
  q = fmaf(q, r, 0x1.555492p-3f);
  q = fmaf(q, r, 0x1.fffffcp-2f);
  const float p = fmaf(q, r * r, r) + 1.0f;
  return p * FloatOf((BitsOf(t) << 23) + 0x3f800000u);
}

DELTAFIN_HOST_DEVICE float Sigmoid(float x) {
  const float e = Exp(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

DELTAFIN_HOST_DEVICE float Tanh(float x) {
  const float a = fabsf(x);
  const float z = a * a;
  float p = fmaf(-0x1.762d90p-8f, z, 0x1.5239d6p-6f);
  p = fmaf(p, z, -0x1.b83fcap-5f);
  p = fmaf(p, z, 0x1.110748p-3f);
  p = fmaf(p, z, -0x1.555534p-2f);
  const float e = Exp(a * -2.0f);
  const float y = a < 0.625f ? fmaf(a * z, p, a) : (1.0f - e) / (1.0f + e);
  return copysignf(y, x);
}

DELTAFIN_HOST_DEVICE float Situ(float gate, float up, SituParams params) {
  const float inverse_beta = 1.0f / params.beta;
  const float activated =
      (params.beta * Tanh(gate * inverse_beta)) * Sigmoid(gate);
  if (params.linear_beta == 0.0f) return activated * up;
  const float inverse_linear = 1.0f / params.linear_beta;
  return activated * (params.linear_beta * Tanh(up * inverse_linear));
}

}  // namespace deltafin::cuda
