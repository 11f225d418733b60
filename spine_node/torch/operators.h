// spine_node/torch/operators.h
//
// The operators of docs/model.md section 4 on f32 tensors of any device. Pure
// functions; rows are tokens.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace deltafin::torch_spine {

// y = w * x / sqrt(mean(x^2) + eps) over the last dimension.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// x / sqrt(sum(x^2) + eps) over the last dimension.
at::Tensor L2Norm(const at::Tensor& x, double eps);

// SiTU (4.7); linear_beta 0 leaves `up` as it is.
at::Tensor Situ(const at::Tensor& gate, const at::Tensor& up, double beta,
                double linear_beta);

// Causal depth-wise convolution and SiLU (4.3). x [T, D], taps [D, 4],
// history [3, D] raw inputs, oldest first; replaced by the last three.
at::Tensor ShortConv(const at::Tensor& x, const at::Tensor& taps,
                     at::Tensor& history);

// Inputs of the recurrence for T tokens; q carries its scale.
struct KdaInputs {
  at::Tensor q, k, v;    // [T, H, D]
  at::Tensor log_decay;  // [T, H, D], negative
  at::Tensor beta;       // [T, H]
};

// Chunk form of the KDA recurrence (4.4). state [H, D (key), D (value)],
// replaced. Returns [T, H, D].
at::Tensor KdaChunked(const KdaInputs& in, at::Tensor& state);

// Attention-residual mix (4.2): candidates are `blocks` in order, then
// `prefix`, each [T, H]. score_weight [H] = norm_w * proj_w.
at::Tensor AttentionResidual(const std::vector<at::Tensor>& blocks,
                             const at::Tensor& prefix,
                             const at::Tensor& score_weight, double eps);

// Absorbed MLA scores and sums (4.5): queries [T, heads, R], cache [n, R] with
// n - T positions before this step, R = latent then rope. Returns the mixed
// latents [T, heads, value_dim].
at::Tensor LatentAttention(const at::Tensor& queries, const at::Tensor& cache,
                           int64_t value_dim, double scale);

}  // namespace deltafin::torch_spine
