// spine_node/cpu/kda_attention.h
//
// Kimi delta attention of one layer for a token group, in step form: tokens of
// a sequence strictly one after the other, heads side by side
// (docs/model.md 4.3 and 4.4, docs/numerics.md section 7). Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/cpu/token_group.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

class KdaAttention {
 public:
  // `context` outlives the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<KdaAttention>> Create(
      const LayerContext& context);

  // x, out: [T, H], x normalised, T <= kTokenGroup. Advances the state of
  // `layer` in every run's sequence. On an error that state is undefined.
  OperatorStatus Forward(int layer, const KdaWeights& weights, const float* x,
                         const TokenGroup& group, float* out);

 private:
  struct HeadTask;
  explicit KdaAttention(const LayerContext& context) : context_(context) {}
  OperatorStatus RunHead(const HeadTask& task, float* scratch);
  OperatorStatus RunToken(const HeadTask& task, int token, float* scratch);
  void ConvolveToken(const HeadTask& task, int token, float* q, float* k,
                     float* v);

  const LayerContext& context_;
  // Raw projections; g becomes the gated output.
  FloatRows q_, k_, v_, g_, decay_;  // [kTokenGroup, W]
  FloatRows decay_low_rank_;         // [kTokenGroup, d]
  FloatRows beta_;                   // [kTokenGroup, n]
  FloatRows head_scratch_;           // [workers, 5 d]
};

}  // namespace deltafin
