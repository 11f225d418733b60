#include "spine_node/cpu/mlp.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(const LayerContext& context) {
  const ModelSpec& spec = context.spec;
  const int widest =
      std::max(spec.first_k_dense_replace > 0 ? spec.intermediate_size : 0,
               spec.num_shared_experts * spec.moe_intermediate_size);
  auto mlp = std::unique_ptr<Mlp>(new Mlp(context));
  ASSIGN_OR_RETURN(mlp->gate_, FloatRows::Allocate(kTokenGroup, widest));
  ASSIGN_OR_RETURN(mlp->up_, FloatRows::Allocate(kTokenGroup, widest));
  return mlp;
}

OperatorStatus Mlp::Forward(const MlpNames& names, const MlpWeights& weights,
                            const Activations& x, float* out) {
  const int width = weights.gate.rows;
  RETURN_IF_OPERATOR_FAILED(context_.linear.Run(
      x, {{names.gate, weights.gate, gate_.row(0), gate_.width()},
          {names.up, weights.up, up_.row(0), up_.width()}}));
  ForEachRow(context_.threads, x.num_tokens, [&](int t) {
    context_.ops.situ(gate_.row(t), up_.row(t), width, context_.spec.situ,
                      gate_.row(t));
  });
  return context_.linear.Run(
      {gate_.row(0), gate_.width(), x.num_tokens},
      {{names.down, weights.down, out, size_t(weights.down.rows)}});
}

}  // namespace deltafin
