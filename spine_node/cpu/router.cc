#include "spine_node/cpu/router.h"

#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<Router>> Router::Create(
    const LayerContext& context) {
  const size_t experts = context.spec.num_experts;
  auto router = std::unique_ptr<Router>(new Router(context));
  ASSIGN_OR_RETURN(router->logits_, FloatRows::Allocate(kTokenGroup, experts));
  ASSIGN_OR_RETURN(
      router->scratch_,
      FloatRows::Allocate(context.threads.num_threads(), 2 * experts));
  return router;
}

OperatorStatus Router::Forward(const MoeWeights& moe, const Activations& x,
                               int32_t* experts, float* weights) {
  RETURN_IF_OPERATOR_FAILED(context_.linear.Run(
      x, {{"router", moe.router, logits_.row(0), logits_.width()}}));
  const ModelSpec& spec = context_.spec;
  const int top_k = spec.num_experts_per_token;
  context_.threads.ParallelFor(x.num_tokens, [&](int64_t t, int worker) {
    RouteToken(context_.ops, logits_.row(t), moe.correction_bias,
               spec.num_experts, top_k, spec.routed_scaling_factor,
               scratch_.row(worker), experts + t * top_k, weights + t * top_k);
  });
  return {};
}

}  // namespace deltafin
