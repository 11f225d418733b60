// kernels/vector/kda.h
//
// The KDA step of docs/numerics.md section 7 over a vector type; lanes are
// value columns.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

template <class V>
struct VectorKda {
  using Floats = typename V::Floats;

  static void Step(const KdaStepArgs& args) {
    constexpr int kVectors = 8;  // chains in flight: covers the fma latency
    int d = 0;
    for (; d + kVectors * V::kLanes <= args.dim; d += kVectors * V::kLanes) {
      StepColumns<kVectors>(args, d, Full{});
    }
    for (; d + V::kLanes <= args.dim; d += V::kLanes) {
      StepColumns<1>(args, d, Full{});
    }
    if (d < args.dim) StepColumns<1>(args, d, Part{args.dim - d});
  }

 private:
  // kVectors vectors of columns from d. The second pass forms a_i * S[i][d]
  // again, which costs less than storing it. `args` is a copy, so that stores
  // to the state cannot change it.
  template <int kVectors, class Lanes>
  static void StepColumns(const KdaStepArgs args, int d, Lanes lanes) {
    Floats u[kVectors];
    Predict<kVectors>(args, d, lanes, u);
#pragma GCC unroll 8
    for (int m = 0; m < kVectors; ++m) {
      const Floats v = V::Load(args.v + d + m * V::kLanes, lanes);
      u[m] = V::Mul(V::Set(args.beta), V::Sub(v, u[m]));
    }
    Floats o[kVectors];
    for (int m = 0; m < kVectors; ++m) o[m] = V::Set(0.0f);
    float* row = args.state + d;
    for (int i = 0; i < args.dim; ++i, row += args.dim) {
      const Floats a = V::Set(args.decay[i]);
      const Floats k = V::Set(args.k[i]);
      const Floats q = V::Set(args.q[i]);
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        const Floats decayed = V::Mul(a, V::Load(row + m * V::kLanes, lanes));
        const Floats s = V::Fma(k, u[m], decayed);
        V::Store(row + m * V::kLanes, s, lanes);
        o[m] = V::Fma(q, s, o[m]);
      }
    }
    for (int m = 0; m < kVectors; ++m) {
      V::Store(args.out + d + m * V::kLanes, o[m], lanes);
    }
  }

  // p_d = sum_i k_i (a_i S[i][d]).
  template <int kVectors, class Lanes>
  [[gnu::always_inline]] static void Predict(const KdaStepArgs& args, int d,
                                             Lanes lanes, Floats* p) {
    for (int m = 0; m < kVectors; ++m) p[m] = V::Set(0.0f);
    const float* row = args.state + d;
    for (int i = 0; i < args.dim; ++i, row += args.dim) {
      const Floats a = V::Set(args.decay[i]);
      const Floats k = V::Set(args.k[i]);
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        const Floats decayed = V::Mul(a, V::Load(row + m * V::kLanes, lanes));
        p[m] = V::Fma(k, decayed, p[m]);
      }
    }
  }
};

}  // namespace
}  // namespace deltafin
