// common/base/tensor_names.h
//
// The tensors a model of the K3 family has: names, dtypes and shapes of
// docs/model.md section 2 for a ModelSpec. The one list that loaders, nodes and
// checks share. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/expert_key.h"
#include "common/base/model_spec.h"
#include "common/base/safetensors.h"

namespace deltafin {

struct TensorSpec {
  std::string name;  // full name in the checkpoint
  DType dtype = DType::kBf16;
  std::vector<int64_t> shape;

  // Bytes of the tensor as stored.
  uint64_t bytes() const;
};

// "language_model.model.layers.<layer>."
std::string LayerPrefix(int layer);

// Embedding, final norm, final attention residual, head.
std::vector<TensorSpec> GlobalTensors(const ModelSpec& spec);
// All of a layer but its routed experts.
std::vector<TensorSpec> LayerTensors(const ModelSpec& spec, int layer);
// The tensor `suffix` ("self_attn.q_proj.weight") of a layer, or
// ("norm.weight", "lm_head.weight") a global one. REQUIRES: the layer has it.
TensorSpec LayerTensor(const ModelSpec& spec, int layer,
                       std::string_view suffix);
TensorSpec GlobalTensor(const ModelSpec& spec, std::string_view suffix);

// One routed expert, in the order of docs/model.md section 6.2: w1 packed,
// w1 scale, w2 packed, w2 scale, w3 packed, w3 scale. w1 is gate, w3 up, w2
// down.
std::array<TensorSpec, 6> ExpertTensors(const ModelSpec& spec, ExpertKey key);

// Whether `name` is a tensor of a routed expert, of whatever model.
bool IsExpertTensor(std::string_view name);

// Checks that the checkpoint has every tensor of the model with its dtype and
// shape, and no other text tensor; routed experts only where it has any. Opens
// all shards. Errors: NOT_FOUND or
// INVALID_ARGUMENT naming config.json, shard and tensor.
absl::Status ValidateCheckpoint(const ModelSpec& spec,
                                const Checkpoint& checkpoint);

}  // namespace deltafin
