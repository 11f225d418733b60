// spine_node/cpu/latent_projection.h
//
// The way to the routed experts' latent space and back (docs/model.md 4.9).
#pragma once

#include <cstdint>
#include <span>

#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

// latent [T, L] = routed_expert_down_proj x.
OperatorStatus ProjectToLatent(const LayerContext& context,
                               const MoeWeights& moe, const Activations& x,
                               float* latent);

// hidden [T, H] = routed_expert_up_proj RMSNorm(sums). sums: [T, L] fixed
// point; latent: [T, L] scratch.
OperatorStatus ProjectFromLatent(const LayerContext& context,
                                 const MoeWeights& moe,
                                 std::span<const int64_t> sums, float* latent,
                                 float* hidden);

}  // namespace deltafin
