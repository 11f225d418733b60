// spine_node/cpu/router.h
//
// Sigmoid router with a bias that only selects (docs/model.md 4.8).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

class Router {
 public:
  // `context` outlives the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Router>> Create(
      const LayerContext& context);

  // x [T, H], T <= kTokenGroup; experts and weights [T, K], ids ascending in a
  // row.
  OperatorStatus Forward(const MoeWeights& moe, const Activations& x,
                         int32_t* experts, float* weights);

 private:
  explicit Router(const LayerContext& context) : context_(context) {}

  const LayerContext& context_;
  FloatRows logits_;   // [kTokenGroup, E]
  FloatRows scratch_;  // [workers, 2 E]
};

}  // namespace deltafin
