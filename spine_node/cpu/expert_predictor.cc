#include "spine_node/cpu/expert_predictor.h"

#include "common/base/status_macros.h"
#include "spine_node/cpu/attention_residual.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<ExpertPredictor>> ExpertPredictor::Create(
    const LayerContext& context, Router& router) {
  std::unique_ptr<ExpertPredictor> predictor(
      new ExpertPredictor(context, router));
  const ModelSpec& spec = context.spec;
  ASSIGN_OR_RETURN(predictor->prefix_,
                   FloatRows::Allocate(kTokenGroup, spec.hidden_size));
  ASSIGN_OR_RETURN(predictor->input_,
                   FloatRows::Allocate(kTokenGroup, spec.hidden_size));
  predictor->experts_.resize(size_t{kTokenGroup} * spec.num_experts_per_token);
  predictor->weights_.resize(predictor->experts_.size());
  return predictor;
}

std::span<const int32_t> ExpertPredictor::Predict(const LayerWeights& layer,
                                                  const Step& step) {
  const int num_tokens = step.num_tokens();
  const int hidden = context_.spec.hidden_size;
  for (int t = 0; t < num_tokens; ++t) {
    context_.ops.add(step.prefix.row(t), step.mixture.shared.row(t), hidden,
                     prefix_.row(t));
  }
  const ResidualSite site = {layer.mlp_residual, layer.post_attention_norm,
                             "mlp_res", "post_attention_layernorm"};
  const OperatorStatus mixed = MixAndNormalize(
      context_, site, {step.snapshots(), prefix_, 0, num_tokens},
      input_.row(0));
  if (!mixed.ok()) return {};
  const OperatorStatus routed =
      router_.Forward(layer.moe, {input_.row(0), input_.width(), num_tokens},
                      experts_.data(), weights_.data());
  if (!routed.ok()) return {};
  return std::span(experts_).first(size_t{1} * num_tokens *
                                   context_.spec.num_experts_per_token);
}

}  // namespace deltafin
