#include "spine_node/cpu/mla_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/status_macros.h"
#include "spine_node/cpu/stopwatch.h"
#include "spine_node/first_error.h"

namespace deltafin {
namespace {

// Room for the scores of this many heads over the longest context; more heads
// share a pass over shorter ones.
constexpr int kScoredHeads = 16;
// Heads of a call that the kernels gain from.
constexpr int kMostHeadsPerCall = 96;

}  // namespace

absl::StatusOr<std::unique_ptr<MlaAttention>> MlaAttention::Create(
    const LayerContext& context) {
  const ModelSpec& spec = context.spec;
  const size_t heads = spec.num_attention_heads;
  const size_t nope = spec.qk_nope_head_dim, rope = spec.qk_rope_head_dim;
  const size_t latent = spec.kv_lora_rank;
  auto layer = std::unique_ptr<MlaAttention>(new MlaAttention(context));
  const auto allocate = [](FloatRows& rows, size_t width) -> absl::Status {
    ASSIGN_OR_RETURN(rows, FloatRows::Allocate(kTokenGroup, width));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate(layer->query_low_rank_, spec.q_lora_rank));
  RETURN_IF_ERROR(allocate(layer->query_, heads * (nope + rope)));
  RETURN_IF_ERROR(allocate(layer->latent_, latent + rope));
  RETURN_IF_ERROR(allocate(layer->gate_, heads * spec.v_head_dim));
  RETURN_IF_ERROR(allocate(layer->absorbed_, heads * (latent + rope)));
  RETURN_IF_ERROR(allocate(layer->attended_, heads * latent));
  RETURN_IF_ERROR(allocate(layer->value_, heads * spec.v_head_dim));
  ASSIGN_OR_RETURN(
      layer->scores_,
      FloatRows::Allocate(context.threads.num_threads(),
                          kScoredHeads * spec.max_position_embeddings));
  return layer;
}

OperatorStatus MlaAttention::Forward(int layer, const MlaWeights& weights,
                                     const float* x, const TokenGroup& group,
                                     float* out) {
  const int n = group.num_tokens;
  RETURN_IF_OPERATOR_FAILED(Project(weights, x, n));
  RETURN_IF_OPERATOR_FAILED(CacheLatents(layer, weights, group));
  RETURN_IF_OPERATOR_FAILED(AbsorbQueries(weights, n));
  Attend(layer, group);
  RETURN_IF_OPERATOR_FAILED(ExpandValues(weights, n));
  const int width = static_cast<int>(value_.width());
  ForEachRow(context_.threads, n, [&](int t) {
    context_.ops.sigmoid(gate_.row(t), width, gate_.row(t));
    context_.ops.multiply(value_.row(t), gate_.row(t), width, gate_.row(t));
  });
  return context_.linear.Run(
      {gate_.row(0), gate_.width(), n},
      {{"mla o_proj", weights.o, out, size_t(context_.spec.hidden_size)}});
}

// q_low = RMSNorm(q_a x), q = q_b q_low; latent and rope = kv_a x; gate = g x.
OperatorStatus MlaAttention::Project(const MlaWeights& weights, const float* x,
                                     int n) {
  const ModelSpec& spec = context_.spec;
  RETURN_IF_OPERATOR_FAILED(context_.linear.Run(
      {x, size_t(spec.hidden_size), n},
      {{"mla q_a_proj", weights.q_a, query_low_rank_.row(0),
        query_low_rank_.width()},
       {"mla kv_a_proj", weights.kv_a, latent_.row(0), latent_.width()},
       {"mla g_proj", weights.g, gate_.row(0), gate_.width()}}));
  for (int t = 0; t < n; ++t) {
    float* row = query_low_rank_.row(t);
    if (context_.ops.rms_norm(row, weights.q_a_norm, spec.q_lora_rank,
                              spec.low_rank_norm_eps,
                              row) != KernelStatus::kOk) {
      return {KernelStatus::kNotFinite, "mla q_a_layernorm", t};
    }
  }
  return context_.linear.Run(
      {query_low_rank_.row(0), query_low_rank_.width(), n},
      {{"mla q_b_proj", weights.q_b, query_.row(0), query_.width()}});
}

// Only the latent part is normalised; the rope part is kept as projected.
OperatorStatus MlaAttention::CacheLatents(int layer, const MlaWeights& weights,
                                          const TokenGroup& group) {
  const int latent_size = context_.spec.kv_lora_rank;
  const size_t key_dim = latent_.width();
  for (const TokenRun& run : group.runs) {
    float* cached = run.state->latents(layer) + run.position * key_dim;
    for (int i = 0; i < run.num_tokens; ++i, cached += key_dim) {
      const float* row = latent_.row(run.first_row + i);
      if (context_.ops.rms_norm(row, weights.kv_a_norm, latent_size,
                                context_.spec.low_rank_norm_eps,
                                cached) != KernelStatus::kOk) {
        return {KernelStatus::kNotFinite, "mla kv_a_layernorm",
                run.first_row + i};
      }
      std::copy(row + latent_size, row + key_dim, cached + latent_size);
    }
  }
  return {};
}

// absorbed[h] = (Wk[h]^T q_nope[h] | q_rope[h]).
OperatorStatus MlaAttention::AbsorbQueries(const MlaWeights& weights, int n) {
  const ModelSpec& spec = context_.spec;
  const size_t nope = spec.qk_nope_head_dim, rope = spec.qk_rope_head_dim;
  const size_t latent = spec.kv_lora_rank, key_dim = latent_.width();
  FirstError<OperatorStatus> error;
  context_.threads.ParallelFor(spec.num_attention_heads, [&](int64_t head,
                                                             int worker) {
    const float* query = query_.row(0) + head * (nope + rope);
    float* absorbed = absorbed_.row(0) + head * key_dim;
    const OperatorStatus status =
        context_.linear.RunOnWorker(worker, {query, query_.width(), n},
                                    {"mla kv_b_proj keys", weights.keys[head],
                                     absorbed, absorbed_.width()});
    error.Report(status.row, status);
    for (int t = 0; t < n; ++t) {
      const float* from = query + t * query_.width() + nope;
      std::copy(from, from + rope, absorbed + t * absorbed_.width() + latent);
    }
  });
  return error.status();
}

void MlaAttention::Attend(int layer, const TokenGroup& group) {
  ScopedTimer timer(context_.timings.attention);
  const int heads = context_.spec.num_attention_heads;
  std::vector<AttendTask> tasks;
  for (const TokenRun& run : group.runs) {
    const int share = HeadsPerCall(run, group.num_tokens);
    for (int token = 0; token < run.num_tokens; ++token) {
      for (int head = 0; head < heads; head += share) {
        tasks.push_back({&run, token, head, std::min(share, heads - head)});
      }
    }
  }
  context_.threads.ParallelFor(tasks.size(), [&](int64_t task, int worker) {
    AttendHeads(layer, tasks[task], scores_.row(worker));
  });
}

// As many heads of a token as the scratch holds, but fewer where there would
// not be four tasks a thread to balance.
int MlaAttention::HeadsPerCall(const TokenRun& run, int group_tokens) const {
  const int64_t wanted = int64_t{4} * context_.threads.num_threads();
  const int64_t share =
      (int64_t{group_tokens} * context_.spec.num_attention_heads + wanted - 1) /
      wanted;
  const int64_t room =
      static_cast<int64_t>(scores_.width()) / (run.position + run.num_tokens);
  return static_cast<int>(
      std::clamp<int64_t>(std::min(share, room), 1, kMostHeadsPerCall));
}

void MlaAttention::AttendHeads(int layer, const AttendTask& task,
                               float* scores) {
  const ModelSpec& spec = context_.spec;
  const int row = task.run->first_row + task.token;
  const size_t first_head = task.first_head;
  const double query_dim = spec.qk_nope_head_dim + spec.qk_rope_head_dim;
  context_.ops.attention(
      {.num_queries = task.num_heads,
       .query = absorbed_.row(row) + first_head * latent_.width(),
       .keys = task.run->state->latents(layer),
       .key_dim = static_cast<int>(latent_.width()),
       .value_dim = spec.kv_lora_rank,
       .num_positions = task.run->position + task.token + 1,
       .scale = static_cast<float>(1.0 / std::sqrt(query_dim)),
       .scores = scores,
       .out = attended_.row(row) + first_head * spec.kv_lora_rank});
}

// value[h] = Wv[h] attended[h].
OperatorStatus MlaAttention::ExpandValues(const MlaWeights& weights, int n) {
  const ModelSpec& spec = context_.spec;
  FirstError<OperatorStatus> error;
  context_.threads.ParallelFor(
      spec.num_attention_heads, [&](int64_t head, int worker) {
        const OperatorStatus status = context_.linear.RunOnWorker(
            worker,
            {attended_.row(0) + head * spec.kv_lora_rank, attended_.width(), n},
            {"mla kv_b_proj values", weights.values[head],
             value_.row(0) + head * spec.v_head_dim, value_.width()});
        error.Report(status.row, status);
      });
  return error.status();
}

}  // namespace deltafin
