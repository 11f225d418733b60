// kernels/vector/math.h
//
// exp, sigmoid, tanh and SiTU of docs/numerics.md section 6 over a vector type.
#pragma once

#include "kernels/expert_weights.h"

namespace deltafin {
namespace {

template <class V>
struct VectorMath {
  using Floats = typename V::Floats;

  [[gnu::always_inline]] static Floats Exp(Floats x) {
    const Floats shift = V::Set(12582912.0f);
    x = V::SelectLess(x, V::Set(-87.0f), V::Set(-87.0f), x);
    x = V::SelectLess(V::Set(88.0f), x, V::Set(88.0f), x);
    const Floats t = V::Fma(x, V::Set(0x1.715476p+0f), shift);
    const Floats n = V::Sub(t, shift);
    Floats r = V::Fma(n, V::Set(-0x1.62e430p-1f), x);
    r = V::Fma(n, V::Set(0x1.05c610p-29f), r);
    Floats q = V::Fma(V::Set(0x1.6a264ap-10f), r, V::Set(0x1.123988p-7f));
    q = V::Fma(q, r, V::Set(0x1.5558ecp-5f));
    q = V::Fma(q, r, V::Set(0x1.555492p-3f));
    q = V::Fma(q, r, V::Set(0x1.fffffcp-2f));
    const Floats p = V::Add(V::Fma(q, V::Mul(r, r), r), V::Set(1.0f));
    return V::Mul(p, V::PowerOfShifted(t));
  }

  [[gnu::always_inline]] static Floats Sigmoid(Floats x) {
    const Floats one = V::Set(1.0f);
    const Floats e = Exp(V::CopySign(x, V::Set(-0.0f)));
    return V::Div(V::SelectLess(x, V::Set(0.0f), e, one), V::Add(one, e));
  }

  [[gnu::always_inline]] static Floats Silu(Floats x) {
    return V::Mul(x, Sigmoid(x));
  }

  [[gnu::always_inline]] static Floats Tanh(Floats x) {
    const Floats one = V::Set(1.0f);
    const Floats a = V::CopySign(x, V::Set(0.0f));
    const Floats z = V::Mul(a, a);
    Floats p = V::Fma(V::Set(-0x1.762d90p-8f), z, V::Set(0x1.5239d6p-6f));
    p = V::Fma(p, z, V::Set(-0x1.b83fcap-5f));
    p = V::Fma(p, z, V::Set(0x1.110748p-3f));
    p = V::Fma(p, z, V::Set(-0x1.555534p-2f));
    const Floats near_zero = V::Fma(V::Mul(a, z), p, a);
    const Floats e = Exp(V::Mul(a, V::Set(-2.0f)));
    const Floats far = V::Div(V::Sub(one, e), V::Add(one, e));
    return V::CopySign(V::SelectLess(a, V::Set(0.625f), near_zero, far), x);
  }

  // beta tanh(g / beta) sigmoid(g).
  [[gnu::always_inline]] static Floats SituGate(Floats gate,
                                                SituParams params) {
    const Floats inverse = V::Set(1.0f / params.beta);
    const Floats scaled =
        V::Mul(V::Set(params.beta), Tanh(V::Mul(gate, inverse)));
    return V::Mul(scaled, Sigmoid(gate));
  }

  // linear_beta tanh(u / linear_beta).
  [[gnu::always_inline]] static Floats SituUp(Floats up, SituParams params) {
    const Floats inverse = V::Set(1.0f / params.linear_beta);
    return V::Mul(V::Set(params.linear_beta), Tanh(V::Mul(up, inverse)));
  }
};

}  // namespace
}  // namespace deltafin
