// kernels/elementwise.h
//
// Everything of the spine that is not a matrix product, with the bits of
// docs/numerics.md sections 6 and 7. One table per instruction set. Re-entrant,
// no allocation. Vectors are f32; rows need no alignment unless said.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expert_weights.h"
#include "kernels/kernel_status.h"

namespace deltafin {

inline constexpr int kAttentionBlock =
    256;  // absolute positions that share one partial sum

// One head's KDA step inputs (docs/numerics.md section 7). K = V = dim.
struct KdaStepArgs {
  int dim = 0;
  const float* q = nullptr;      // [dim] after L2 norm and scale
  const float* k = nullptr;      // [dim] after L2 norm
  const float* v = nullptr;      // [dim]
  const float* decay = nullptr;  // [dim] a = exp(g), in (0, 1)
  float beta = 0;
  float* state = nullptr;  // [dim (key), dim (value)], in/out
  float* out = nullptr;    // [dim]
};

// num_queries queries (heads of one token) against the same n cached positions:
// scores = Dot(q, k_i) * scale (section 4's rule on f32), softmax in blocks of
// 256 absolute positions, out = sum p_i v_i. Values are the first value_dim
// entries of each key row (absorbed MLA: the latent). Queries are independent:
// any grouping gives the same bits, more at once read the keys less often (16
// or more are fastest).
struct AttentionArgs {
  int num_queries = 1;
  const float* query = nullptr;  // [num_queries, key_dim]
  const float* keys = nullptr;   // [n, key_dim], row stride key_dim
  int key_dim = 0;               // latent then rope
  int value_dim = 0;             // latent, <= key_dim
  int64_t num_positions = 0;     // n >= 1
  float scale = 0;
  float* scores = nullptr;  // [num_queries, n] scratch
  float* out = nullptr;     // [num_queries, value_dim]
};

struct ElementwiseKernel {
  // y may alias x in all of these.
  void (*exp)(const float* x, int n, float* y);
  void (*sigmoid)(const float* x, int n, float* y);
  void (*silu)(const float* x, int n, float* y);
  // y = SiTU(gate, up).
  void (*situ)(const float* gate, const float* up, int n, SituParams params,
               float* y);
  // y_i = (x_i * inv) * w_i. kNotFinite: the sum of squares is not finite.
  KernelStatus (*rms_norm)(const float* x, const float* w, int n, float eps,
                           float* y);
  // y_i = (x_i * inv) * c, inv = 1 / sqrt(sum x^2 + eps).
  KernelStatus (*l2_norm)(const float* x, int n, float eps, float c, float* y);
  // y = a + b, y = a * b.
  void (*add)(const float* a, const float* b, int n, float* y);
  void (*multiply)(const float* a, const float* b, int n, float* y);
  // sum a_i * b_i by the lane rule (section 6).
  float (*dot_lanes)(const float* a, const float* b, int n);
  // y[c] = silu(fma(w3, u0, fma(w2, u1, fma(w1, u2, w0 * u3)))): u0 the current
  // raw input, u1..u3 the three before it. taps: [4][n], tap j multiplies
  // u_(t-3+j).
  void (*short_conv)(const float* taps, const float* u0, const float* u1,
                     const float* u2, const float* u3, int n, float* y);
  // decay_i = exp(bound * sigmoid(a * (r_i + dt_i))), a = exp(A_log[head])
  // computed once by the caller.
  void (*kda_decay)(const float* r, const float* dt_bias, int n, float a,
                    float bound, float* decay);
  void (*kda_step)(const KdaStepArgs& args);
  // kNotFinite / kOverflow are found by the caller's next test; NaN passes
  // through.
  void (*attention)(const AttentionArgs& args);
  // Attention residuals: candidates [n] pointers to [hidden], n <= 256, nw
  // [hidden] = norm_w * proj_w. out [hidden] may not alias. kNotFinite: the sum
  // of squares of a candidate is not finite.
  KernelStatus (*attention_residual)(const float* const* candidates, int n,
                                     const float* nw, int hidden, float eps,
                                     float* out);
  // out[i] = f32(sum[i]) * 2^-40, one rounding (section 8).
  void (*from_fixed)(const int64_t* sums, int n, float* out);
  // Adds b to a, i64.
  void (*add_fixed)(const int64_t* b, int n, int64_t* a);
};

// Router (section 7): z [E] logits, bias [E]; the K largest sigmoid(z) + bias,
// equal ones by lower index. ids ascending by expert index, weights in the same
// order: (s / (sum + 1e-20)) * scaling, sum over the chosen in that order.
// Scalar: E <= a few thousand. scratch: 2 * num_experts floats.
void RouteToken(const ElementwiseKernel& kernel, const float* z,
                const float* bias, int num_experts, int top_k, float scaling,
                float* scratch, int32_t* ids, float* weights);

}  // namespace deltafin
