#include "spine_node/cpu/kda_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/status_macros.h"
#include "spine_node/cpu/stopwatch.h"
#include "spine_node/first_error.h"

namespace deltafin {
namespace {

constexpr int kHistory = 3;  // raw inputs that a convolution of 4 taps recalls

// Raw projection of one head, `back` tokens before token `token` of the run:
// from the run itself or from the history.
const float* RawInput(const float* run_rows, size_t stride,
                      const float* history, int dim, int token, int back) {
  const int t = token - back;
  return t >= 0 ? run_rows + t * stride : history + (kHistory + t) * dim;
}

// Keeps the last three raw inputs, oldest first.
void UpdateHistory(const float* run_rows, size_t stride, int num_tokens,
                   int dim, float* history) {
  for (int j = 0; j < kHistory; ++j) {
    const float* source =
        RawInput(run_rows, stride, history, dim, num_tokens + j, kHistory);
    std::memmove(history + j * dim, source, sizeof(float) * dim);
  }
}

}  // namespace

struct KdaAttention::HeadTask {
  const KdaWeights* weights;
  const TokenRun* run;
  int head;
  size_t column;  // of the head in the W-wide rows
  KdaHeadState state;
};

absl::StatusOr<std::unique_ptr<KdaAttention>> KdaAttention::Create(
    const LayerContext& context) {
  auto layer = std::unique_ptr<KdaAttention>(new KdaAttention(context));
  const ModelSpec& spec = context.spec;
  for (FloatRows* rows :
       {&layer->q_, &layer->k_, &layer->v_, &layer->g_, &layer->decay_}) {
    ASSIGN_OR_RETURN(*rows, FloatRows::Allocate(kTokenGroup, spec.kda_width()));
  }
  ASSIGN_OR_RETURN(layer->decay_low_rank_,
                   FloatRows::Allocate(kTokenGroup, spec.kda_head_dim));
  ASSIGN_OR_RETURN(layer->beta_,
                   FloatRows::Allocate(kTokenGroup, spec.kda_num_heads));
  ASSIGN_OR_RETURN(layer->head_scratch_,
                   FloatRows::Allocate(context.threads.num_threads(),
                                       size_t{5} * spec.kda_head_dim));
  return layer;
}

OperatorStatus KdaAttention::Forward(int layer, const KdaWeights& weights,
                                     const float* x, const TokenGroup& group,
                                     float* out) {
  const size_t hidden = context_.spec.hidden_size;
  const int n = group.num_tokens, heads = context_.spec.kda_num_heads;
  Linear& linear = context_.linear;
  RETURN_IF_OPERATOR_FAILED(
      linear.Run({x, hidden, n},
                 {{"kda q_proj", weights.q, q_.row(0), q_.width()},
                  {"kda k_proj", weights.k, k_.row(0), k_.width()},
                  {"kda v_proj", weights.v, v_.row(0), v_.width()},
                  {"kda g_proj", weights.g, g_.row(0), g_.width()},
                  {"kda f_a_proj", weights.f_a, decay_low_rank_.row(0),
                   decay_low_rank_.width()},
                  {"kda b_proj", weights.b, beta_.row(0), beta_.width()}}));
  RETURN_IF_OPERATOR_FAILED(linear.Run(
      {decay_low_rank_.row(0), decay_low_rank_.width(), n},
      {{"kda f_b_proj", weights.f_b, decay_.row(0), decay_.width()}}));
  context_.ops.sigmoid(beta_.row(0), n * heads, beta_.row(0));
  {
    ScopedTimer timer(context_.timings.attention);
    FirstError<OperatorStatus> error;
    const int64_t tasks = static_cast<int64_t>(group.runs.size()) * heads;
    context_.threads.ParallelFor(tasks, [&](int64_t task, int worker) {
      const TokenRun& run = group.runs[task / heads];
      const int head = static_cast<int>(task % heads);
      const OperatorStatus status = RunHead(
          {&weights, &run, head, size_t{1} * head * context_.spec.kda_head_dim,
           run.state->kda(layer, head)},
          head_scratch_.row(worker));
      error.Report(status.row, status);
    });
    RETURN_IF_OPERATOR_FAILED(error.status());
  }
  return linear.Run({g_.row(0), g_.width(), n},
                    {{"kda o_proj", weights.o, out, hidden}});
}

OperatorStatus KdaAttention::RunHead(const HeadTask& task, float* scratch) {
  const TokenRun& run = *task.run;
  for (int t = 0; t < run.num_tokens; ++t) {
    RETURN_IF_OPERATOR_FAILED(RunToken(task, t, scratch));
  }
  const int dim = context_.spec.kda_head_dim;
  float* history = task.state.history;
  for (FloatRows* rows : {&q_, &k_, &v_}) {
    UpdateHistory(rows->row(run.first_row) + task.column, rows->width(),
                  run.num_tokens, dim, history);
    history += kHistory * dim;
  }
  return {};
}

OperatorStatus KdaAttention::RunToken(const HeadTask& task, int token,
                                      float* scratch) {
  const ModelSpec& spec = context_.spec;
  const ElementwiseKernel& ops = context_.ops;
  const int dim = spec.kda_head_dim;
  const int row = task.run->first_row + token;
  float *q = scratch, *k = q + dim, *v = k + dim, *o = v + dim;
  float* decay = decay_.row(row) + task.column;
  float* gate = g_.row(row) + task.column;

  ConvolveToken(task, token, q, k, v);
  const float q_scale = static_cast<float>(1.0 / std::sqrt(double(dim)));
  if (ops.l2_norm(q, dim, kL2NormEps, q_scale, q) != KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda q norm", row};
  }
  if (ops.l2_norm(k, dim, kL2NormEps, 1.0f, k) != KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda k norm", row};
  }
  ops.kda_decay(decay, task.weights->dt_bias + task.column, dim,
                task.weights->decay_rate[task.head], spec.gate_lower_bound,
                decay);
  ops.kda_step({.dim = dim,
                .q = q,
                .k = k,
                .v = v,
                .decay = decay,
                .beta = beta_.row(row)[task.head],
                .state = task.state.matrix,
                .out = o});
  if (ops.rms_norm(o, task.weights->o_norm, dim, spec.rms_norm_eps, o) !=
      KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda o_norm", row};
  }
  ops.sigmoid(gate, dim, gate);
  ops.multiply(o, gate, dim, gate);
  return {};
}

void KdaAttention::ConvolveToken(const HeadTask& task, int token, float* q,
                                 float* k, float* v) {
  const int dim = context_.spec.kda_head_dim;
  const size_t taps_offset = 4 * task.column;
  const float* history = task.state.history;
  const auto convolve = [&](const FloatRows& rows, const float* taps,
                            float* y) {
    const float* run_rows = rows.row(task.run->first_row) + task.column;
    const auto input = [&](int back) {
      return RawInput(run_rows, rows.width(), history, dim, token, back);
    };
    context_.ops.short_conv(taps + taps_offset, input(0), input(1), input(2),
                            input(3), dim, y);
    history += kHistory * dim;
  };
  convolve(q_, task.weights->q_taps, q);
  convolve(k_, task.weights->k_taps, k);
  convolve(v_, task.weights->v_taps, v);
}

}  // namespace deltafin
