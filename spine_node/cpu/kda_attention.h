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
  // `layer` in every run's sequence, but not over drafts: their inputs go to
  // the sequence's draft rows. On an error that state is undefined.
  OperatorStatus Forward(int layer, const KdaWeights& weights, const float* x,
                         const TokenGroup& group, float* out);

 private:
  struct HeadTask;
  struct HeadRows;
  explicit KdaAttention(const LayerContext& context) : context_(context) {}
  HeadRows GroupRows(const HeadTask& task);
  static HeadRows DraftRows(const HeadTask& task, size_t dim);
  static void StoreDrafts(const HeadTask& task, const HeadRows& rows,
                          size_t dim);
  OperatorStatus RunHead(const HeadTask& task, int worker);
  OperatorStatus RunRows(const HeadTask& task, const HeadRows& rows, int count,
                         const KdaHeadState& state);
  OperatorStatus RunToken(const HeadTask& task, const HeadRows& rows, int token,
                          const KdaHeadState& state);
  void ConvolveToken(const HeadTask& task, const HeadRows& rows, int token,
                     const float* history);

  const LayerContext& context_;
  // Raw projections; g becomes the gated output. decay stays raw: drafts keep
  // it.
  FloatRows q_, k_, v_, g_, decay_;  // [kTokenGroup, W]
  FloatRows decay_low_rank_;         // [kTokenGroup, d]
  FloatRows beta_;                   // [kTokenGroup, n]
  FloatRows head_scratch_;           // [workers, 5 d]: q k v o decay
  FloatRows draft_states_;           // [workers, head's state]
};

}  // namespace deltafin
