#include "spine_node/cpu/latent_projection.h"

#include "spine_node/first_error.h"

namespace deltafin {

OperatorStatus ProjectToLatent(const LayerContext& context,
                               const MoeWeights& moe, const Activations& x,
                               float* latent) {
  return context.linear.Run(x, {{"routed_expert_down_proj", moe.latent_down,
                                 latent, size_t(moe.latent_down.rows)}});
}

OperatorStatus ProjectFromLatent(const LayerContext& context,
                                 const MoeWeights& moe,
                                 std::span<const int64_t> sums, float* latent,
                                 float* hidden) {
  const int width = context.spec.routed_expert_hidden_size;
  const int num_tokens = static_cast<int>(sums.size() / width);
  FirstError<OperatorStatus> error;
  ForEachRow(context.threads, num_tokens, [&](int t) {
    float* row = latent + size_t{1} * t * width;
    context.ops.from_fixed(&sums[size_t{1} * t * width], width, row);
    error.Report(t, {context.ops.rms_norm(row, moe.latent_norm, width,
                                          context.spec.rms_norm_eps, row),
                     "routed_expert_norm", t});
  });
  RETURN_IF_OPERATOR_FAILED(error.status());
  return context.linear.Run({latent, size_t(width), num_tokens},
                            {{"routed_expert_up_proj", moe.latent_up, hidden,
                              size_t(moe.latent_up.rows)}});
}

}  // namespace deltafin
