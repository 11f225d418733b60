// spine_node/cpu/mla_attention.h
//
// Gated multi-head latent attention of one layer for a token group, absorbed:
// queries are taken into the latent space, so the cache holds one latent and
// rope row per token for all heads (docs/model.md 4.5, docs/numerics.md
// section 7). Not thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/cpu/token_group.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

class MlaAttention {
 public:
  // `context` outlives the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<MlaAttention>> Create(
      const LayerContext& context);

  // x, out: [T, H], x normalised, T <= kTokenGroup. Writes the tokens' rows of
  // the latent cache of `layer` in every run's sequence.
  OperatorStatus Forward(int layer, const MlaWeights& weights, const float* x,
                         const TokenGroup& group, float* out);

 private:
  // Some heads of one token against the cached positions up to its own.
  struct AttendTask {
    const TokenRun* run;
    int token;
    int first_head;
    int num_heads;
  };

  explicit MlaAttention(const LayerContext& context) : context_(context) {}
  OperatorStatus Project(const MlaWeights& weights, const float* x, int n);
  OperatorStatus CacheLatents(int layer, const MlaWeights& weights,
                              const TokenGroup& group);
  OperatorStatus AbsorbQueries(const MlaWeights& weights, int n);
  void Attend(int layer, const TokenGroup& group);
  int HeadsPerCall(const TokenRun& run, int group_tokens) const;
  void AttendHeads(int layer, const AttendTask& task, float* scores);
  OperatorStatus ExpandValues(const MlaWeights& weights, int n);

  const LayerContext& context_;
  FloatRows query_low_rank_;  // [kTokenGroup, q_lora_rank]
  FloatRows query_;           // [kTokenGroup, n (nope + rope)]
  FloatRows latent_;          // [kTokenGroup, latent + rope]
  FloatRows gate_;            // [kTokenGroup, n v], becomes the gated output
  FloatRows absorbed_;        // [kTokenGroup, n (latent + rope)]
  FloatRows attended_;        // [kTokenGroup, n latent]
  FloatRows value_;           // [kTokenGroup, n v]
  FloatRows scores_;  // [workers, kScoredHeads * max_position_embeddings]
};

}  // namespace deltafin
