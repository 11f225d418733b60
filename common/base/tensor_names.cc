#include "common/base/tensor_names.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr const char* kModelPrefix = "language_model.model.";
constexpr const char* kHeadName = "language_model.lm_head.weight";
constexpr int kConvKernel = 4;

// Collects tensors under one prefix.
class TensorList {
 public:
  explicit TensorList(std::string prefix) : prefix_(std::move(prefix)) {}

  void Bf16(const char* name, std::vector<int64_t> shape) {
    tensors_.push_back({prefix_ + name, DType::kBf16, std::move(shape)});
  }
  void F32(const char* name, std::vector<int64_t> shape) {
    tensors_.push_back({prefix_ + name, DType::kF32, std::move(shape)});
  }
  std::vector<TensorSpec> Take() { return std::move(tensors_); }

 private:
  std::string prefix_;
  std::vector<TensorSpec> tensors_;
};

void AddNorms(const ModelSpec& spec, TensorList& list) {
  const int64_t hidden = spec.hidden_size;
  list.Bf16("input_layernorm.weight", {hidden});
  list.Bf16("post_attention_layernorm.weight", {hidden});
  list.Bf16("self_attention_res_norm.weight", {hidden});
  list.Bf16("self_attention_res_proj.weight", {1, hidden});
  list.Bf16("mlp_res_norm.weight", {hidden});
  list.Bf16("mlp_res_proj.weight", {1, hidden});
}

void AddKda(const ModelSpec& spec, TensorList& list) {
  const int64_t hidden = spec.hidden_size;
  const int64_t heads = spec.kda_num_heads;
  const int64_t head_dim = spec.kda_head_dim;
  const int64_t width = spec.kda_width();
  list.Bf16("self_attn.q_proj.weight", {width, hidden});
  list.Bf16("self_attn.k_proj.weight", {width, hidden});
  list.Bf16("self_attn.v_proj.weight", {width, hidden});
  list.Bf16("self_attn.g_proj.weight", {width, hidden});
  list.Bf16("self_attn.f_a_proj.weight", {head_dim, hidden});
  list.Bf16("self_attn.f_b_proj.weight", {width, head_dim});
  list.Bf16("self_attn.b_proj.weight", {heads, hidden});
  list.Bf16("self_attn.o_proj.weight", {hidden, width});
  list.F32("self_attn.q_conv1d.weight", {width, 1, kConvKernel});
  list.F32("self_attn.k_conv1d.weight", {width, 1, kConvKernel});
  list.F32("self_attn.v_conv1d.weight", {width, 1, kConvKernel});
  // One value a head; zero padding up to head_dim (docs/model.md 4.4).
  list.F32("self_attn.A_log", {std::max(heads, head_dim)});
  list.F32("self_attn.dt_bias", {width});
  list.F32("self_attn.o_norm.weight", {head_dim});
}

void AddMla(const ModelSpec& spec, TensorList& list) {
  const int64_t hidden = spec.hidden_size;
  const int64_t heads = spec.num_attention_heads;
  const int64_t nope = spec.qk_nope_head_dim;
  const int64_t rope = spec.qk_rope_head_dim;
  const int64_t value_width = heads * spec.v_head_dim;
  list.Bf16("self_attn.q_a_proj.weight", {spec.q_lora_rank, hidden});
  list.Bf16("self_attn.q_a_layernorm.weight", {spec.q_lora_rank});
  list.Bf16("self_attn.q_b_proj.weight",
            {heads * (nope + rope), spec.q_lora_rank});
  list.Bf16("self_attn.kv_a_proj_with_mqa.weight",
            {spec.kv_lora_rank + rope, hidden});
  list.Bf16("self_attn.kv_a_layernorm.weight", {spec.kv_lora_rank});
  list.Bf16("self_attn.kv_b_proj.weight",
            {heads * (nope + spec.v_head_dim), spec.kv_lora_rank});
  list.Bf16("self_attn.g_proj.weight", {value_width, hidden});
  list.Bf16("self_attn.o_proj.weight", {hidden, value_width});
}

void AddDenseMlp(const ModelSpec& spec, TensorList& list) {
  const int64_t hidden = spec.hidden_size;
  const int64_t width = spec.intermediate_size;
  list.Bf16("mlp.gate_proj.weight", {width, hidden});
  list.Bf16("mlp.up_proj.weight", {width, hidden});
  list.Bf16("mlp.down_proj.weight", {hidden, width});
}

void AddMoe(const ModelSpec& spec, TensorList& list) {
  const int64_t hidden = spec.hidden_size;
  const int64_t latent = spec.routed_expert_hidden_size;
  const int64_t shared =
      int64_t{spec.num_shared_experts} * spec.moe_intermediate_size;
  list.Bf16("block_sparse_moe.gate.weight", {spec.num_experts, hidden});
  list.F32("block_sparse_moe.gate.e_score_correction_bias", {spec.num_experts});
  list.Bf16("block_sparse_moe.routed_expert_down_proj.weight",
            {latent, hidden});
  list.Bf16("block_sparse_moe.routed_expert_norm.weight", {latent});
  list.Bf16("block_sparse_moe.routed_expert_up_proj.weight", {hidden, latent});
  list.Bf16("block_sparse_moe.shared_experts.gate_proj.weight",
            {shared, hidden});
  list.Bf16("block_sparse_moe.shared_experts.up_proj.weight", {shared, hidden});
  list.Bf16("block_sparse_moe.shared_experts.down_proj.weight",
            {hidden, shared});
}

TensorSpec Named(std::vector<TensorSpec> tensors, const std::string& name) {
  for (TensorSpec& tensor : tensors) {
    if (tensor.name == name) return std::move(tensor);
  }
  CheckFailed(__FILE__, __LINE__, "the model has this tensor", name);
}

// Checks `tensors` and strikes their names from those not yet expected.
absl::Status CheckTensors(const Checkpoint& checkpoint,
                          std::span<const TensorSpec> tensors,
                          absl::flat_hash_set<std::string>& unexpected) {
  for (const TensorSpec& tensor : tensors) {
    const auto location =
        checkpoint.Find(tensor.name, tensor.dtype, tensor.shape);
    if (!location.ok()) {
      return AddContext(
          location.status(),
          checkpoint.model_dir() + "/config.json and the shards do not agree");
    }
    unexpected.erase(tensor.name);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t TensorSpec::bytes() const {
  uint64_t bytes = DTypeSize(dtype);
  for (const int64_t dim : shape) bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

std::string LayerPrefix(int layer) {
  return fmt::format("{}layers.{}.", kModelPrefix, layer);
}

std::vector<TensorSpec> GlobalTensors(const ModelSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  TensorList list(kModelPrefix);
  list.Bf16("embed_tokens.weight", {spec.vocab_size, hidden});
  list.Bf16("norm.weight", {hidden});
  list.Bf16("output_attn_res_norm.weight", {hidden});
  list.Bf16("output_attn_res_proj.weight", {1, hidden});
  std::vector<TensorSpec> tensors = list.Take();
  tensors.push_back({kHeadName, DType::kBf16, {spec.vocab_size, hidden}});
  return tensors;
}

std::vector<TensorSpec> LayerTensors(const ModelSpec& spec, int layer) {
  TensorList list(LayerPrefix(layer));
  AddNorms(spec, list);
  if (spec.attention[layer] == AttentionKind::kKda) {
    AddKda(spec, list);
  } else {
    AddMla(spec, list);
  }
  if (spec.is_moe(layer)) {
    AddMoe(spec, list);
  } else {
    AddDenseMlp(spec, list);
  }
  return list.Take();
}

TensorSpec LayerTensor(const ModelSpec& spec, int layer,
                       std::string_view suffix) {
  return Named(LayerTensors(spec, layer),
               LayerPrefix(layer) + std::string(suffix));
}

TensorSpec GlobalTensor(const ModelSpec& spec, std::string_view suffix) {
  const bool head = suffix == "lm_head.weight";
  return Named(GlobalTensors(spec),
               head ? kHeadName : kModelPrefix + std::string(suffix));
}

std::array<TensorSpec, 6> ExpertTensors(const ModelSpec& spec, ExpertKey key) {
  const int64_t latent = spec.routed_expert_hidden_size;
  const int64_t width = spec.moe_intermediate_size;
  const std::string prefix = fmt::format("{}block_sparse_moe.experts.{}.",
                                         LayerPrefix(key.layer), key.expert);
  // Two codes a byte; one scale byte a group.
  const auto packed = [&](const char* name, int64_t rows, int64_t columns) {
    return TensorSpec{
        prefix + name + ".weight_packed", DType::kU8, {rows, columns / 2}};
  };
  const auto scale = [&](const char* name, int64_t rows, int64_t columns) {
    return TensorSpec{prefix + name + ".weight_scale",
                      DType::kU8,
                      {rows, columns / kMxfp4Group}};
  };
  return {packed("w1", width, latent), scale("w1", width, latent),
          packed("w2", latent, width), scale("w2", latent, width),
          packed("w3", width, latent), scale("w3", width, latent)};
}

bool IsExpertTensor(std::string_view name) {
  return name.find(".block_sparse_moe.experts.") != std::string_view::npos;
}

absl::Status ValidateCheckpoint(const ModelSpec& spec,
                                const Checkpoint& checkpoint) {
  const std::vector<std::string> names = checkpoint.tensors();
  absl::flat_hash_set<std::string> unexpected(names.begin(), names.end());
  RETURN_IF_ERROR(CheckTensors(checkpoint, GlobalTensors(spec), unexpected));
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    RETURN_IF_ERROR(
        CheckTensors(checkpoint, LayerTensors(spec, layer), unexpected));
    if (!spec.is_moe(layer) || !checkpoint.has_experts()) continue;
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      RETURN_IF_ERROR(CheckTensors(
          checkpoint, ExpertTensors(spec, {layer, expert}), unexpected));
    }
  }
  if (unexpected.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}/config.json and the shards do not agree: the shards hold tensor {}, "
      "which the config has no place for ({} such tensors)",
      checkpoint.model_dir(),
      *std::min_element(unexpected.begin(), unexpected.end()),
      unexpected.size()));
}

}  // namespace deltafin
