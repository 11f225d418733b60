// spine_node/cpu/expert_predictor.h
//
// Which experts the next layer will probably want, from what is known before
// the routed experts of this one have answered. A guess for reading ahead: it
// enters no result. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/router.h"
#include "spine_node/cpu/step.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

class ExpertPredictor {
 public:
  // Both outlive the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ExpertPredictor>> Create(
      const LayerContext& context, Router& router);

  // The router of `layer` over the step's prefix with the shared experts'
  // output added, as if neither the routed experts of the layer before nor the
  // attention of this one added anything. [T, K], ascending in each row, valid
  // until the next call. Empty where the arithmetic fails.
  // REQUIRES: layer.is_moe; step.num_tokens() <= kTokenGroup.
  std::span<const int32_t> Predict(const LayerWeights& layer, const Step& step);

 private:
  ExpertPredictor(const LayerContext& context, Router& router)
      : context_(context), router_(router) {}

  const LayerContext& context_;
  Router& router_;
  FloatRows prefix_;  // [kTokenGroup, H]
  FloatRows input_;   // [kTokenGroup, H]
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
};

}  // namespace deltafin
