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

// Rows [first_row, first_row + num_rows) of the snapshots and the prefix.
struct ResidualRows {
  std::span<const FloatRows> snapshots;  // oldest first
  const FloatRows& prefix;
  int first_row = 0;
  int num_rows = 0;
};

// The rows mixed and normalised, out [num_rows, H]. Without snapshots the
// prefix stands for the mixture. Rows of an error count from first_row.
OperatorStatus MixAndNormalize(const LayerContext& context,
                               const ResidualSite& site,
                               const ResidualRows& rows, float* out);

}  // namespace deltafin
