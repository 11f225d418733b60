// spine_node/cpu/cpu_layers.h
//
// The operators of a CPU spine with their scratch: one of each kind, shared by
// all layers of the kind. Not thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "spine_node/cpu/embedding.h"
#include "spine_node/cpu/expert_predictor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/kda_attention.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/linear.h"
#include "spine_node/cpu/lm_head.h"
#include "spine_node/cpu/mla_attention.h"
#include "spine_node/cpu/mlp.h"
#include "spine_node/cpu/router.h"
#include "spine_node/options.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

struct CpuLayers {
  // Weights, kernel, threads and timings outlive the layers. Errors:
  // RESOURCE_EXHAUSTED when scratch memory is refused.
  static absl::StatusOr<std::unique_ptr<CpuLayers>> Create(
      const SpineWeights& weights, const SpineOptions& options,
      SpineTimings& timings);

  std::unique_ptr<Linear> linear;
  std::unique_ptr<LayerContext> context;
  std::unique_ptr<Embedding> embedding;
  std::unique_ptr<KdaAttention> kda;
  std::unique_ptr<MlaAttention> mla;
  std::unique_ptr<Mlp> mlp;
  std::unique_ptr<Router> router;
  std::unique_ptr<ExpertPredictor> predictor;
  std::unique_ptr<LmHead> head;
  FloatRows input;   // [kTokenGroup, H] normalised input of a sublayer
  FloatRows output;  // [kTokenGroup, H] its output
};

}  // namespace deltafin
