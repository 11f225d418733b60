// spine_node/cpu/mlp.h
//
// Gated unit down(SiTU(gate x, up x)) for a token group: the dense MLP and the
// shared experts (docs/model.md 4.7). Not thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/layer_context.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

// Names of the three products in errors; static strings.
struct MlpNames {
  const char* gate;
  const char* up;
  const char* down;
};
inline constexpr MlpNames kDenseMlpNames = {"mlp gate_proj", "mlp up_proj",
                                            "mlp down_proj"};
inline constexpr MlpNames kSharedExpertNames = {"shared_experts gate_proj",
                                                "shared_experts up_proj",
                                                "shared_experts down_proj"};

class Mlp {
 public:
  // `context` outlives the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(
      const LayerContext& context);

  // x, out: [T, H], T <= kTokenGroup; may not alias.
  OperatorStatus Forward(const MlpNames& names, const MlpWeights& weights,
                         const Activations& x, float* out);

 private:
  explicit Mlp(const LayerContext& context) : context_(context) {}

  const LayerContext& context_;
  FloatRows gate_, up_;  // [kTokenGroup, widest F]
};

}  // namespace deltafin
