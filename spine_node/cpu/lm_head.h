// spine_node/cpu/lm_head.h
//
// Final mixture, norm and vocabulary projection of chosen rows
// (docs/model.md 4.11). Not thread-safe.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

class LmHead {
 public:
  // All outlive the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<LmHead>> Create(
      const LayerContext& context, const HeadWeights& weights);

  // logits [rows, V] of the given rows of the step.
  OperatorStatus Forward(std::span<const FloatRows> snapshots,
                         const FloatRows& prefix, std::span<const int> rows,
                         float* logits);

 private:
  LmHead(const LayerContext& context, const HeadWeights& weights)
      : context_(context), weights_(weights) {}

  OperatorStatus MixRows(std::span<const FloatRows> snapshots,
                         const FloatRows& prefix, std::span<const int> rows);

  const LayerContext& context_;
  const HeadWeights& weights_;
  FloatRows hidden_;  // [kTokenGroup, H]
};

}  // namespace deltafin
