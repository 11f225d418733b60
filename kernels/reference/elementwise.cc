// Scalar definitions of docs/numerics.md section 6 and of the maps of section
// 7.
#include "kernels/reference/elementwise.h"

#include <bit>
#include <cmath>

#include "kernels/reference/reference_tables.h"

namespace deltafin {
namespace reference {

float Exp(float x) {
  constexpr float kShift = 12582912.0f;  // rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  const float t = std::fma(x, 0x1.715476p+0f, kShift);
  const float n = t - kShift;
  float r = std::fma(n, -0x1.62e430p-1f, x);
  r = std::fma(n, 0x1.05c610p-29f, r);
  float q = std::fma(0x1.6a264ap-10f, r, 0x1.123988p-7f);
  q = std::fma(q, r, 0x1.5558ecp-5f);
  q = std::fma(q, r, 0x1.555492p-3f);
  q = std::fma(q, r, 0x1.fffffcp-2f);
  const float p = std::fma(q, r * r, r) + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(t) << 23) + 0x3f800000u;
  return p * std::bit_cast<float>(power);
}

float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

float Tanh(float x) {
  const float a = std::fabs(x);
  const float z = a * a;
  float p = std::fma(-0x1.762d90p-8f, z, 0x1.5239d6p-6f);
  p = std::fma(p, z, -0x1.b83fcap-5f);
  p = std::fma(p, z, 0x1.110748p-3f);
  p = std::fma(p, z, -0x1.555534p-2f);
  const float e = Exp(a * -2.0f);
  const float y = a < 0.625f ? std::fma(a * z, p, a) : (1.0f - e) / (1.0f + e);
  return std::copysign(y, x);
}

float Situ(float gate, float up, SituParams params) {
  const float inverse_beta = 1.0f / params.beta;
  const float activated =
      (params.beta * Tanh(gate * inverse_beta)) * Sigmoid(gate);
  if (params.linear_beta == 0.0f) return activated * up;
  const float inverse_linear = 1.0f / params.linear_beta;
  return activated * (params.linear_beta * Tanh(up * inverse_linear));
}

void LaneSum::Add(float v) {
  float& lane = lanes_[num_elements_++ % 32];
  lane = lane + v;
}

void LaneSum::AddProduct(float a, float b) {
  float& lane = lanes_[num_elements_++ % 32];
  lane = std::fma(a, b, lane);
}

float LaneSum::Total() {
  while (num_elements_ % 32 != 0) Add(0.0f);
  for (int h = 16; h >= 1; h /= 2) {
    for (int j = 0; j < h; ++j) lanes_[j] = lanes_[j] + lanes_[j + h];
  }
  return lanes_[0];
}

}  // namespace reference

namespace {

using reference::LaneSum;

float SumOfSquares(const float* x, int n) {
  LaneSum sum;
  for (int i = 0; i < n; ++i) sum.AddProduct(x[i], x[i]);
  return sum.Total();
}

void Exp(const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = reference::Exp(x[i]);
}

void Sigmoid(const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = reference::Sigmoid(x[i]);
}

void Silu(const float* x, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = x[i] * reference::Sigmoid(x[i]);
}

void Situ(const float* gate, const float* up, int n, SituParams params,
          float* y) {
  for (int i = 0; i < n; ++i) y[i] = reference::Situ(gate[i], up[i], params);
}

KernelStatus RmsNorm(const float* x, const float* w, int n, float eps,
                     float* y) {
  const float ss = SumOfSquares(x, n);
  if (!std::isfinite(ss)) return KernelStatus::kNotFinite;
  const float inv = 1.0f / std::sqrt(ss / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) y[i] = (x[i] * inv) * w[i];
  return KernelStatus::kOk;
}

KernelStatus L2Norm(const float* x, int n, float eps, float c, float* y) {
  const float ss = SumOfSquares(x, n);
  if (!std::isfinite(ss)) return KernelStatus::kNotFinite;
  const float inv = 1.0f / std::sqrt(ss + eps);
  for (int i = 0; i < n; ++i) y[i] = (x[i] * inv) * c;
  return KernelStatus::kOk;
}

void Add(const float* a, const float* b, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void Multiply(const float* a, const float* b, int n, float* y) {
  for (int i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

float DotLanes(const float* a, const float* b, int n) {
  LaneSum sum;
  for (int i = 0; i < n; ++i) sum.AddProduct(a[i], b[i]);
  return sum.Total();
}

void ShortConv(const float* taps, const float* u0, const float* u1,
               const float* u2, const float* u3, int n, float* y) {
  for (int c = 0; c < n; ++c) {
    float v = taps[c] * u3[c];
    v = std::fma(taps[n + c], u2[c], v);
    v = std::fma(taps[2 * n + c], u1[c], v);
    v = std::fma(taps[3 * n + c], u0[c], v);
    y[c] = v * reference::Sigmoid(v);
  }
}

void KdaDecay(const float* r, const float* dt_bias, int n, float a, float bound,
              float* decay) {
  for (int i = 0; i < n; ++i) {
    const float gate = reference::Sigmoid(a * (r[i] + dt_bias[i]));
    decay[i] = reference::Exp(bound * gate);
  }
}

void FromFixed(const int64_t* sums, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<float>(sums[i]) * 0x1p-40f;
}

void AddFixed(const int64_t* b, int n, int64_t* a) {
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<int64_t>(static_cast<uint64_t>(a[i]) +
                                static_cast<uint64_t>(b[i]));
  }
}

}  // namespace

const ElementwiseKernel kReferenceElementwiseKernel = {
    Exp,
    Sigmoid,
    Silu,
    Situ,
    RmsNorm,
    L2Norm,
    Add,
    Multiply,
    DotLanes,
    ShortConv,
    KdaDecay,
    reference::KdaStep,
    reference::Attention,
    reference::AttentionResidual,
    FromFixed,
    AddFixed,
};

}  // namespace deltafin
