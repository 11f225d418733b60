// kernels/vector/elementwise.h
//
// The maps and norms of docs/numerics.md sections 6 to 8 over a vector type.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/vector/math.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

template <class V>
struct VectorElementwise {
  using Math = VectorMath<V>;
  using Floats = typename V::Floats;

  static void Exp(const float* x, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      V::Store(y + i, Math::Exp(V::Load(x + i, lanes)), lanes);
    });
  }

  static void Sigmoid(const float* x, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      V::Store(y + i, Math::Sigmoid(V::Load(x + i, lanes)), lanes);
    });
  }

  static void Silu(const float* x, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      V::Store(y + i, Math::Silu(V::Load(x + i, lanes)), lanes);
    });
  }

  static void Situ(const float* gate, const float* up, int n, SituParams params,
                   float* y) {
    if (params.linear_beta == 0.0f) {
      ForEachVector<V>(n, [=](int i, auto lanes) {
        const Floats g = Math::SituGate(V::Load(gate + i, lanes), params);
        V::Store(y + i, V::Mul(g, V::Load(up + i, lanes)), lanes);
      });
      return;
    }
    ForEachVector<V>(n, [=](int i, auto lanes) {
      const Floats g = Math::SituGate(V::Load(gate + i, lanes), params);
      const Floats u = Math::SituUp(V::Load(up + i, lanes), params);
      V::Store(y + i, V::Mul(g, u), lanes);
    });
  }

  static KernelStatus RmsNorm(const float* x, const float* w, int n, float eps,
                              float* y) {
    const float ss = SumOfSquares<V>(x, n);
    if (!IsFiniteFloat(ss)) return KernelStatus::kNotFinite;
    const Floats inv = InverseRoot(ss / static_cast<float>(n) + eps);
    ForEachVector<V>(n, [=](int i, auto lanes) {
      const Floats scaled = V::Mul(V::Load(x + i, lanes), inv);
      V::Store(y + i, V::Mul(scaled, V::Load(w + i, lanes)), lanes);
    });
    return KernelStatus::kOk;
  }

  static KernelStatus L2Norm(const float* x, int n, float eps, float c,
                             float* y) {
    const float ss = SumOfSquares<V>(x, n);
    if (!IsFiniteFloat(ss)) return KernelStatus::kNotFinite;
    const Floats inv = InverseRoot(ss + eps);
    ForEachVector<V>(n, [=](int i, auto lanes) {
      const Floats scaled = V::Mul(V::Load(x + i, lanes), inv);
      V::Store(y + i, V::Mul(scaled, V::Set(c)), lanes);
    });
    return KernelStatus::kOk;
  }

  static void Add(const float* a, const float* b, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      V::Store(y + i, V::Add(V::Load(a + i, lanes), V::Load(b + i, lanes)),
               lanes);
    });
  }

  static void Multiply(const float* a, const float* b, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      V::Store(y + i, V::Mul(V::Load(a + i, lanes), V::Load(b + i, lanes)),
               lanes);
    });
  }

  static float DotLanes(const float* a, const float* b, int n) {
    return SumOfProducts<V>(a, b, n);
  }

  static void ShortConv(const float* taps, const float* u0, const float* u1,
                        const float* u2, const float* u3, int n, float* y) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      const auto tap = [&](int j) {
        return V::Load(taps + static_cast<size_t>(j) * n + i, lanes);
      };
      Floats v = V::Mul(tap(0), V::Load(u3 + i, lanes));
      v = V::Fma(tap(1), V::Load(u2 + i, lanes), v);
      v = V::Fma(tap(2), V::Load(u1 + i, lanes), v);
      v = V::Fma(tap(3), V::Load(u0 + i, lanes), v);
      V::Store(y + i, Math::Silu(v), lanes);
    });
  }

  static void KdaDecay(const float* r, const float* dt_bias, int n, float a,
                       float bound, float* decay) {
    ForEachVector<V>(n, [=](int i, auto lanes) {
      const Floats sum =
          V::Add(V::Load(r + i, lanes), V::Load(dt_bias + i, lanes));
      const Floats gate = Math::Sigmoid(V::Mul(V::Set(a), sum));
      V::Store(decay + i, Math::Exp(V::Mul(V::Set(bound), gate)), lanes);
    });
  }

  // Modulo 2^64, though the contract keeps sums inside.
  static void AddFixed(const int64_t* b, int n, int64_t* a) {
    for (int i = 0; i < n; ++i) {
      a[i] = static_cast<int64_t>(static_cast<uint64_t>(a[i]) +
                                  static_cast<uint64_t>(b[i]));
    }
  }

  // 1 / sqrt(v) in every lane; two roundings.
  [[gnu::always_inline]] static Floats InverseRoot(float v) {
    return V::Div(V::Set(1.0f), V::Sqrt(V::Set(v)));
  }
};

}  // namespace
}  // namespace deltafin
