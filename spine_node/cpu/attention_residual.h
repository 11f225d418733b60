// spine_node/cpu/attention_residual.h
//
// Attention residuals: a sublayer's input is a softmax mixture of the block
// snapshots and the running prefix (docs/model.md 4.2), then normalised for the
// sublayer.
#pragma once

#include <span>

#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"

namespace deltafin {

// One site: which weights, and what its two operators are called in errors.
struct ResidualSite {
  const float* residual = nullptr;  // [H] norm_w * proj_w
  const float* norm = nullptr;      // [H] of the norm that follows
  const char* residual_name = "";   // "self_attention_res"
  const char* norm_name = "";       // "input_layernorm"
};

// Rows [first_row, first_row + n) of the snapshots and the prefix, mixed and
// normalised into rows [0, n) of `out`. Without snapshots the prefix stands for
// the mixture.
OperatorStatus MixAndNormalize(const LayerContext& context,
                               const ResidualSite& site,
                               std::span<const FloatRows> snapshots,
                               const FloatRows& prefix, int first_row, int n,
                               float* out);

}  // namespace deltafin
