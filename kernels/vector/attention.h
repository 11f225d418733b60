// kernels/vector/attention.h
//
// Attention over cached positions and attention residuals (docs/numerics.md
// section 7) over a vector type.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/vector/attention_scores.h"
#include "kernels/vector/attention_values.h"
#include "kernels/vector/softmax.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

template <class V>
struct VectorAttention {
  using Floats = typename V::Floats;

  static void Run(const AttentionArgs& args) {
    // A group of queries at a time keeps their weights in the inner caches.
    AttentionArgs group = args;
    for (int h = 0; h < args.num_queries; h += kGroup) {
      const int left = args.num_queries - h;
      group.num_queries = left < kGroup ? left : kGroup;
      group.query = args.query + static_cast<size_t>(h) * args.key_dim;
      group.scores = args.scores + h * args.num_positions;
      group.out = args.out + static_cast<size_t>(h) * args.value_dim;
      RunGroup(group);
    }
  }

  static KernelStatus Residual(const float* const* candidates, int n,
                               const float* nw, int hidden, float eps,
                               float* out) {
    float scores[kAttentionBlock] = {};
    for (int j = 0; j < n; ++j) {
      const float ss = SumOfSquares<V>(candidates[j], hidden);
      if (!IsFiniteFloat(ss)) return KernelStatus::kNotFinite;
      const float mean = ss / static_cast<float>(hidden);
      const Floats inv = V::Div(V::Set(1.0f), V::Sqrt(V::Set(mean + eps)));
      const Floats dot = V::Set(SumOfProducts<V>(candidates[j], nw, hidden));
      V::Store(scores + j, V::Mul(dot, inv), Part{1});
    }
    const Floats inv = V::Set(VectorSoftmax<V>::Run(scores, n));
    ForEachVector<V>(hidden, [&](int c, auto lanes) {
      Floats part = V::Set(0.0f);
      for (int j = 0; j < n; ++j) {
        part =
            V::Fma(V::Set(scores[j]), V::Load(candidates[j] + c, lanes), part);
      }
      const Floats sum = V::Add(V::Set(0.0f), part);
      V::Store(out + c, V::Mul(sum, inv), lanes);
    });
    return KernelStatus::kOk;
  }

 private:
  static constexpr int kGroup = 96;

  static void RunGroup(const AttentionArgs& args) {
    VectorAttentionScores<V>::Run(args);
    float inv[kGroup];
    for (int h = 0; h < args.num_queries; ++h) {
      inv[h] = VectorSoftmax<V>::Run(args.scores + h * args.num_positions,
                                     args.num_positions);
    }
    VectorAttentionValues<V>::Run(args);
    for (int h = 0; h < args.num_queries; ++h) {
      float* out = args.out + static_cast<size_t>(h) * args.value_dim;
      const Floats factor = V::Set(inv[h]);
      ForEachVector<V>(args.value_dim, [=](int c, auto lanes) {
        V::Store(out + c, V::Mul(V::Load(out + c, lanes), factor), lanes);
      });
    }
  }
};

}  // namespace
}  // namespace deltafin
