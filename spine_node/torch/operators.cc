#include "spine_node/torch/operators.h"

#include <limits>

namespace deltafin::torch_spine {
namespace {

// Tokens of one KDA chunk: the pairwise decays take heads * 16 * 16 * dim
// floats, 12.6 MB for K3.
constexpr int64_t kKdaChunk = 16;
// Query rows of one attention pass: 96 heads * 64 rows * 8192 positions is
// 201 MB of scores.
constexpr int64_t kQueryRows = 64;

// One chunk, heads first: q, k, v, g [H, C, D], beta [H, C, 1].
at::Tensor KdaChunk(const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const at::Tensor& g,
                    const at::Tensor& beta, at::Tensor& state) {
  const at::Tensor cum = g.cumsum(1);
  // Only differences of at most 0 are exponentiated.
  const at::Tensor relative =
      (cum.unsqueeze(2) - cum.unsqueeze(1)).clamp_max(0).exp();
  const at::Tensor keyed = relative * k.unsqueeze(1);
  const at::Tensor kk = (k.unsqueeze(2) * keyed).sum(-1);
  const at::Tensor qk = (q.unsqueeze(2) * keyed).sum(-1);
  const at::Tensor grown = cum.exp();
  const at::Tensor right = beta * (v - at::matmul(k * grown, state));
  const at::Tensor left =
      kk.tril(-1) * beta + at::eye(q.size(1), q.options()).unsqueeze(0);
  const at::Tensor u = at::linalg_solve_triangular(
      left, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const at::Tensor out =
      at::matmul(q * grown, state) + at::matmul(qk.tril(), u);
  const at::Tensor last = cum.narrow(1, cum.size(1) - 1, 1);
  state = last.exp().transpose(1, 2) * state +
          at::matmul((k * (last - cum).exp()).transpose(1, 2), u);
  return out;
}

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt() * weight;
}

at::Tensor L2Norm(const at::Tensor& x, double eps) {
  return x * (x.square().sum(-1, /*keepdim=*/true) + eps).rsqrt();
}

at::Tensor Situ(const at::Tensor& gate, const at::Tensor& up, double beta,
                double linear_beta) {
  const at::Tensor act = (gate / beta).tanh() * beta * gate.sigmoid();
  return linear_beta == 0 ? act * up
                          : act * ((up / linear_beta).tanh() * linear_beta);
}

at::Tensor ShortConv(const at::Tensor& x, const at::Tensor& taps,
                     at::Tensor& history) {
  const at::Tensor source = at::cat({history, x}, 0);
  at::Tensor sum = source.narrow(0, 0, x.size(0)) * taps.select(1, 0);
  for (int64_t tap = 1; tap < taps.size(1); ++tap) {
    sum = sum + source.narrow(0, tap, x.size(0)) * taps.select(1, tap);
  }
  history = source.narrow(0, x.size(0), history.size(0)).clone();
  return sum * sum.sigmoid();
}

at::Tensor KdaChunked(const KdaInputs& in, at::Tensor& state) {
  const int64_t tokens = in.q.size(0);
  const auto heads_first = [](const at::Tensor& t, int64_t begin, int64_t n) {
    return t.narrow(0, begin, n).transpose(0, 1).contiguous();
  };
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < tokens; begin += kKdaChunk) {
    const int64_t n = std::min(kKdaChunk, tokens - begin);
    const at::Tensor out = KdaChunk(
        heads_first(in.q, begin, n), heads_first(in.k, begin, n),
        heads_first(in.v, begin, n), heads_first(in.log_decay, begin, n),
        heads_first(in.beta, begin, n).unsqueeze(-1), state);
    parts.push_back(out.transpose(0, 1));
  }
  return at::cat(parts, 0);
}

at::Tensor AttentionResidual(const std::vector<at::Tensor>& blocks,
                             const at::Tensor& prefix,
                             const at::Tensor& score_weight, double eps) {
  std::vector<at::Tensor> candidates = blocks;
  candidates.push_back(prefix);
  const at::Tensor v = at::stack(candidates, 1);  // [T, n, H]
  const at::Tensor scale = (v.square().mean(-1) + eps).rsqrt();
  const at::Tensor scores = at::matmul(v, score_weight) * scale;
  return at::matmul(scores.softmax(-1).unsqueeze(1), v).squeeze(1);
}

at::Tensor LatentAttention(const at::Tensor& queries, const at::Tensor& cache,
                           int64_t value_dim, double scale) {
  const int64_t tokens = queries.size(0);
  const int64_t positions = cache.size(0);
  const at::Tensor values = cache.narrow(1, 0, value_dim);
  const at::Tensor index = at::arange(positions, cache.options());
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < tokens; begin += kQueryRows) {
    const int64_t n = std::min(kQueryRows, tokens - begin);
    const at::Tensor q = queries.narrow(0, begin, n);  // [n, heads, R]
    const at::Tensor last =
        at::arange(positions - tokens + begin, positions - tokens + begin + n,
                   cache.options());
    const at::Tensor hidden = index.unsqueeze(0) > last.unsqueeze(1);
    at::Tensor scores = at::matmul(q, cache.t()) * scale;  // [n, heads, P]
    scores.masked_fill_(hidden.unsqueeze(1),
                        -std::numeric_limits<float>::infinity());
    parts.push_back(at::matmul(scores.softmax(-1), values));
  }
  return at::cat(parts, 0);
}

}  // namespace deltafin::torch_spine
