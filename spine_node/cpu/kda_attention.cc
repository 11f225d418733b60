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
  int layer;
  int head;
  size_t column;   // of the head in the W-wide rows
  float* scratch;  // [5][d]
};

// Raw inputs of one head for consecutive tokens of a sequence.
struct KdaAttention::HeadRows {
  const float* q;
  const float* k;
  const float* v;
  const float* decay;
  size_t stride;  // of the four
  const float* beta;
  size_t beta_stride;
  float* gate;    // becomes the output; null: nobody reads it
  int first_row;  // in the group, for errors

  HeadRows From(int row) const {
    HeadRows rest = *this;
    for (const float** rows : {&rest.q, &rest.k, &rest.v, &rest.decay}) {
      *rows += row * stride;
    }
    rest.beta += row * beta_stride;
    if (gate != nullptr) rest.gate += row * stride;
    rest.first_row += row;
    return rest;
  }
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
  ASSIGN_OR_RETURN(layer->draft_states_,
                   FloatRows::Allocate(context.threads.num_threads(),
                                       SequenceLayout(spec).kda_head_floats));
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
      const OperatorStatus status =
          RunHead({&weights, &run, layer, head,
                   size_t{1} * head * context_.spec.kda_head_dim,
                   head_scratch_.row(worker)},
                  worker);
      error.Report(status.row, status);
    });
    RETURN_IF_OPERATOR_FAILED(error.status());
  }
  return linear.Run({g_.row(0), g_.width(), n},
                    {{"kda o_proj", weights.o, out, hidden}});
}

KdaAttention::HeadRows KdaAttention::GroupRows(const HeadTask& task) {
  const int row = task.run->first_row;
  return {.q = q_.row(row) + task.column,
          .k = k_.row(row) + task.column,
          .v = v_.row(row) + task.column,
          .decay = decay_.row(row) + task.column,
          .stride = q_.width(),
          .beta = beta_.row(row) + task.head,
          .beta_stride = beta_.width(),
          .gate = g_.row(row) + task.column,
          .first_row = row};
}

KdaAttention::HeadRows KdaAttention::DraftRows(const HeadTask& task,
                                               size_t dim) {
  const float* rows = task.run->state->draft_rows(task.layer, task.head);
  const size_t stride = task.run->state->draft_row_floats();
  return {.q = rows,
          .k = rows + dim,
          .v = rows + 2 * dim,
          .decay = rows + 3 * dim,
          .stride = stride,
          .beta = rows + 4 * dim,
          .beta_stride = stride,
          .gate = nullptr,
          .first_row = 0};
}

void KdaAttention::StoreDrafts(const HeadTask& task, const HeadRows& rows,
                               size_t dim) {
  const TokenRun& run = *task.run;
  const size_t stride = run.state->draft_row_floats();
  float* kept =
      run.state->draft_rows(task.layer, task.head) + run.drafts_before * stride;
  for (int t = 0; t < run.num_drafts; ++t, kept += stride) {
    const HeadRows row = rows.From(t);
    std::memcpy(kept, row.q, sizeof(float) * dim);
    std::memcpy(kept + dim, row.k, sizeof(float) * dim);
    std::memcpy(kept + 2 * dim, row.v, sizeof(float) * dim);
    std::memcpy(kept + 3 * dim, row.decay, sizeof(float) * dim);
    kept[4 * dim] = *row.beta;
  }
}

// The state of the sequence advances over settled tokens alone. Drafts run on a
// copy and leave their inputs behind, so that the next step can advance the
// state over those that were not taken back: the same operations on the same
// values, and no state has to be saved.
OperatorStatus KdaAttention::RunHead(const HeadTask& task, int worker) {
  const TokenRun& run = *task.run;
  const size_t dim = context_.spec.kda_head_dim;
  const KdaHeadState state = run.state->kda(task.layer, task.head);
  if (run.num_replayed > 0) {
    RETURN_IF_OPERATOR_FAILED(
        RunRows(task, DraftRows(task, dim), run.num_replayed, state));
  }
  const HeadRows rows = GroupRows(task);
  const int settled = run.num_tokens - run.num_drafts;
  if (settled > 0) {
    RETURN_IF_OPERATOR_FAILED(RunRows(task, rows, settled, state));
  }
  if (run.num_drafts == 0) return {};
  float* copy = draft_states_.row(worker);
  std::memcpy(copy, state.matrix, sizeof(float) * run.state->kda_head_floats());
  const KdaHeadState ahead = {copy, copy + (state.history - state.matrix)};
  if (run.drafts_before > 0) {
    RETURN_IF_OPERATOR_FAILED(
        RunRows(task, DraftRows(task, dim), run.drafts_before, ahead));
  }
  StoreDrafts(task, rows.From(settled), dim);
  return RunRows(task, rows.From(settled), run.num_drafts, ahead);
}

OperatorStatus KdaAttention::RunRows(const HeadTask& task, const HeadRows& rows,
                                     int count, const KdaHeadState& state) {
  for (int t = 0; t < count; ++t) {
    RETURN_IF_OPERATOR_FAILED(RunToken(task, rows, t, state));
  }
  const int dim = context_.spec.kda_head_dim;
  float* history = state.history;
  for (const float* raw : {rows.q, rows.k, rows.v}) {
    UpdateHistory(raw, rows.stride, count, dim, history);
    history += kHistory * dim;
  }
  return {};
}

OperatorStatus KdaAttention::RunToken(const HeadTask& task,
                                      const HeadRows& rows, int token,
                                      const KdaHeadState& state) {
  const ModelSpec& spec = context_.spec;
  const ElementwiseKernel& ops = context_.ops;
  const int dim = spec.kda_head_dim;
  const int row = rows.first_row + token;
  float *q = task.scratch, *k = q + dim, *v = k + dim, *o = v + dim;
  float* decay = o + dim;

  ConvolveToken(task, rows, token, state.history);
  const float q_scale = static_cast<float>(1.0 / std::sqrt(double(dim)));
  if (ops.l2_norm(q, dim, kL2NormEps, q_scale, q) != KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda q norm", row};
  }
  if (ops.l2_norm(k, dim, kL2NormEps, 1.0f, k) != KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda k norm", row};
  }
  ops.kda_decay(
      rows.decay + token * rows.stride, task.weights->dt_bias + task.column,
      dim, task.weights->decay_rate[task.head], spec.gate_lower_bound, decay);
  ops.kda_step({.dim = dim,
                .q = q,
                .k = k,
                .v = v,
                .decay = decay,
                .beta = rows.beta[token * rows.beta_stride],
                .state = state.matrix,
                .out = o});
  if (rows.gate == nullptr) return {};
  if (ops.rms_norm(o, task.weights->o_norm, dim, spec.rms_norm_eps, o) !=
      KernelStatus::kOk) {
    return {KernelStatus::kNotFinite, "kda o_norm", row};
  }
  float* gate = rows.gate + token * rows.stride;
  ops.sigmoid(gate, dim, gate);
  ops.multiply(o, gate, dim, gate);
  return {};
}

void KdaAttention::ConvolveToken(const HeadTask& task, const HeadRows& rows,
                                 int token, const float* history) {
  const int dim = context_.spec.kda_head_dim;
  const size_t taps_offset = 4 * task.column;
  float* out = task.scratch;
  const auto convolve = [&](const float* raw, const float* taps) {
    const auto input = [&](int back) {
      return RawInput(raw, rows.stride, history, dim, token, back);
    };
    context_.ops.short_conv(taps + taps_offset, input(0), input(1), input(2),
                            input(3), dim, out);
    history += kHistory * dim;
    out += dim;
  };
  convolve(rows.q, task.weights->q_taps);
  convolve(rows.k, task.weights->k_taps);
  convolve(rows.v, task.weights->v_taps);
}

}  // namespace deltafin
