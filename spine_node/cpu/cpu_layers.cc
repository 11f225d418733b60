#include "spine_node/cpu/cpu_layers.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

Linear::Limits LinearLimits(const ModelSpec& spec) {
  const int attention_width =
      std::max(spec.kda_width(), spec.num_attention_heads * spec.v_head_dim);
  const int shared_width = spec.num_shared_experts * spec.moe_intermediate_size;
  const int dense_width =
      spec.first_k_dense_replace > 0 ? spec.intermediate_size : 0;
  return {.max_tokens = kTokenGroup,
          .max_cols = std::max({spec.hidden_size, attention_width, shared_width,
                                dense_width, spec.q_lora_rank,
                                spec.routed_expert_hidden_size}),
          .max_head_cols = std::max(spec.kv_lora_rank, spec.qk_nope_head_dim)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuLayers>> CpuLayers::Create(
    const SpineWeights& weights, const SpineOptions& options,
    SpineTimings& timings) {
  const ModelSpec& spec = weights.spec;
  auto layers = std::make_unique<CpuLayers>();
  ASSIGN_OR_RETURN(layers->linear,
                   Linear::Create(options.kernel->linear, *options.threads,
                                  LinearLimits(spec)));
  layers->context = std::make_unique<LayerContext>(
      LayerContext{spec, options.kernel->elementwise, *options.threads,
                   *layers->linear, timings});
  const LayerContext& context = *layers->context;
  layers->embedding =
      std::make_unique<Embedding>(weights.embedding, spec.hidden_size);
  ASSIGN_OR_RETURN(layers->kda, KdaAttention::Create(context));
  ASSIGN_OR_RETURN(layers->mla, MlaAttention::Create(context));
  ASSIGN_OR_RETURN(layers->mlp, Mlp::Create(context));
  ASSIGN_OR_RETURN(layers->router, Router::Create(context));
  ASSIGN_OR_RETURN(layers->predictor,
                   ExpertPredictor::Create(context, *layers->router));
  ASSIGN_OR_RETURN(layers->head, LmHead::Create(context, weights.head));
  ASSIGN_OR_RETURN(layers->input,
                   FloatRows::Allocate(kTokenGroup, spec.hidden_size));
  ASSIGN_OR_RETURN(layers->output,
                   FloatRows::Allocate(kTokenGroup, spec.hidden_size));
  return layers;
}

}  // namespace deltafin
