// kernels/vector/softmax.h
//
// Softmax of one row in blocks of 256 positions (docs/numerics.md section 7)
// over a vector type.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/vector/math.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

template <class V>
struct VectorSoftmax {
  using Floats = typename V::Floats;

  // scores [n] become exp(score - max); returns 1 / d.
  static float Run(float* scores, int64_t n) {
    const Floats m = V::Set(Largest(scores, n));
    float d = 0;
    for (int64_t block = 0; block < n; block += kAttentionBlock) {
      float* p = scores + block;
      const int64_t left = n - block;
      const int count =
          left < kAttentionBlock ? static_cast<int>(left) : kAttentionBlock;
      ForEachVector<V>(count, [=](int i, auto lanes) {
        const Floats x = V::Sub(V::Load(p + i, lanes), m);
        V::Store(p + i, VectorMath<V>::Exp(x), lanes);
      });
      d = d + LaneSum<V>(count, [p](auto acc, int i, auto lanes) {
            return V::Add(acc, V::Load(p + i, lanes));
          });
    }
    return 1.0f / d;
  }

 private:
  static float Largest(const float* scores, int64_t n) {
    Floats m = V::Set(scores[0]);
    int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) {
      const Floats s = V::Load(scores + i);
      m = V::SelectLess(m, s, s, m);
    }
    float lanes[V::kLanes];
    V::Store(lanes, m);
    float largest = lanes[0];
    for (int j = 1; j < V::kLanes; ++j) {
      largest = largest < lanes[j] ? lanes[j] : largest;
    }
    for (; i < n; ++i) largest = largest < scores[i] ? scores[i] : largest;
    return largest;
  }
};

}  // namespace
}  // namespace deltafin
