// Attention over cached positions and attention residuals (docs/numerics.md
// section 7).
#include <algorithm>
#include <cmath>

#include "kernels/reference/elementwise.h"

namespace deltafin::reference {
namespace {

// Section 4's rule on f32.
float Dot(const float* q, const float* k, int dim) {
  constexpr int kChunk = 64;
  float acc = 0;
  for (int c = 0; c < dim; c += kChunk) {
    float p = 0;
    for (int j = c; j < std::min(dim, c + kChunk); ++j) {
      p = std::fma(k[j], q[j], p);
    }
    acc = acc + p;
  }
  return acc;
}

// out_c = (sum of the block sums of p_i value(i)[c]) * inv.
template <typename Value>
void WeightedSum(const float* p, int64_t n, float inv, int width, Value value,
                 float* out) {
  for (int c = 0; c < width; ++c) {
    float sum = 0;
    for (int64_t block = 0; block < n; block += kAttentionBlock) {
      const int64_t end = std::min<int64_t>(n, block + kAttentionBlock);
      float part = 0;
      for (int64_t i = block; i < end; ++i) {
        part = std::fma(p[i], value(i)[c], part);
      }
      sum = sum + part;
    }
    out[c] = sum * inv;
  }
}

}  // namespace

float Softmax(float* scores, int64_t n) {
  float m = scores[0];
  for (int64_t i = 1; i < n; ++i) m = m < scores[i] ? scores[i] : m;
  for (int64_t i = 0; i < n; ++i) scores[i] = Exp(scores[i] - m);
  float d = 0;
  for (int64_t block = 0; block < n; block += kAttentionBlock) {
    LaneSum sum;
    const int64_t end = std::min<int64_t>(n, block + kAttentionBlock);
    for (int64_t i = block; i < end; ++i) sum.Add(scores[i]);
    d = d + sum.Total();
  }
  return 1.0f / d;
}

void Attention(const AttentionArgs& args) {
  const int64_t n = args.num_positions;
  const auto key = [&](int64_t i) { return args.keys + i * args.key_dim; };
  for (int h = 0; h < args.num_queries; ++h) {
    const float* query = args.query + static_cast<size_t>(h) * args.key_dim;
    float* scores = args.scores + h * n;
    for (int64_t i = 0; i < n; ++i) {
      scores[i] = Dot(query, key(i), args.key_dim) * args.scale;
    }
    const float inv = Softmax(scores, n);
    WeightedSum(scores, n, inv, args.value_dim, key,
                args.out + static_cast<size_t>(h) * args.value_dim);
  }
}

KernelStatus AttentionResidual(const float* const* candidates, int n,
                               const float* nw, int hidden, float eps,
                               float* out) {
  float scores[kAttentionBlock];
  for (int j = 0; j < n; ++j) {
    LaneSum squares, dot;
    for (int i = 0; i < hidden; ++i) {
      const float v = candidates[j][i];
      squares.AddProduct(v, v);
      dot.AddProduct(v, nw[i]);
    }
    const float ss = squares.Total();
    if (!std::isfinite(ss)) return KernelStatus::kNotFinite;
    const float inv = 1.0f / std::sqrt(ss / static_cast<float>(hidden) + eps);
    scores[j] = dot.Total() * inv;
  }
  const float inv = Softmax(scores, n);
  WeightedSum(
      scores, n, inv, hidden, [&](int64_t j) { return candidates[j]; }, out);
  return KernelStatus::kOk;
}

}  // namespace deltafin::reference
