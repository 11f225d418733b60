#include "common/base/model_spec.h"

#include "common/base/file_io.h"
#include "common/base/model_config.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;
// The fixed-point sums of routed experts hold this many terms
// (docs/numerics.md section 8).
constexpr int kMaxTermsPerSum = 256;

struct IntegerField {
  const char* path;
  int ModelSpec::*member;
  int64_t min;
  int64_t max;
  int multiple_of = 1;
};

constexpr IntegerField kIntegerFields[] = {
    {"/text_config/vocab_size", &ModelSpec::vocab_size, 2, 1 << 22},
    {"/text_config/hidden_size", &ModelSpec::hidden_size, 1, 1 << 17},
    {"/text_config/num_hidden_layers", &ModelSpec::num_hidden_layers, 1, 4096},
    {"/text_config/intermediate_size", &ModelSpec::intermediate_size, 1,
     1 << 20},
    {"/text_config/first_k_dense_replace", &ModelSpec::first_k_dense_replace, 0,
     4096},
    {"/text_config/attn_res_block_size", &ModelSpec::attn_res_block_size, 1,
     4096},
    {"/text_config/num_attention_heads", &ModelSpec::num_attention_heads, 1,
     4096},
    {"/text_config/q_lora_rank", &ModelSpec::q_lora_rank, 1, 1 << 16},
    {"/text_config/kv_lora_rank", &ModelSpec::kv_lora_rank, 1, 1 << 16},
    {"/text_config/qk_nope_head_dim", &ModelSpec::qk_nope_head_dim, 1, 4096},
    {"/text_config/qk_rope_head_dim", &ModelSpec::qk_rope_head_dim, 1, 4096},
    {"/text_config/v_head_dim", &ModelSpec::v_head_dim, 1, 4096},
    {"/text_config/linear_attn_config/num_heads", &ModelSpec::kda_num_heads, 1,
     4096},
    {"/text_config/linear_attn_config/head_dim", &ModelSpec::kda_head_dim, 1,
     4096},
    {"/text_config/num_experts", &ModelSpec::num_experts, 1, 1 << 16},
    {"/text_config/num_experts_per_token", &ModelSpec::num_experts_per_token, 1,
     kMaxTermsPerSum},
    {"/text_config/num_shared_experts", &ModelSpec::num_shared_experts, 1, 256},
    {"/text_config/moe_intermediate_size", &ModelSpec::moe_intermediate_size,
     kMxfp4Group, 1 << 16, kMxfp4Group},
    {"/text_config/routed_expert_hidden_size",
     &ModelSpec::routed_expert_hidden_size, kMxfp4Group, 1 << 17, kMxfp4Group},
};

struct NumberField {
  const char* path;
  float ModelSpec::*member;
  double min;
  double max;
};

constexpr NumberField kNumberFields[] = {
    {"/text_config/rms_norm_eps", &ModelSpec::rms_norm_eps, 1e-12, 1e-1},
    {"/text_config/linear_attn_config/gate_lower_bound",
     &ModelSpec::gate_lower_bound, -80, -1e-3},
    {"/text_config/routed_scaling_factor", &ModelSpec::routed_scaling_factor,
     1e-6, 1e6},
};
constexpr double kMinBeta = 1e-3;
constexpr double kMaxBeta = 1e6;

absl::Status ReadNumbers(const ModelConfig& config, ModelSpec& spec) {
  for (const IntegerField& field : kIntegerFields) {
    ASSIGN_OR_RETURN(
        const int64_t value,
        config.Integer(field.path, field.min, field.max, field.multiple_of));
    spec.*field.member = static_cast<int>(value);
  }
  for (const NumberField& field : kNumberFields) {
    ASSIGN_OR_RETURN(spec.*field.member,
                     config.Number(field.path, field.min, field.max));
  }
  ASSIGN_OR_RETURN(spec.max_position_embeddings,
                   config.Integer("/text_config/max_position_embeddings", 1,
                                  int64_t{1} << 40, 1));
  return absl::OkStatus();
}

absl::Status ReadOptionalNumbers(const ModelConfig& config, ModelSpec& spec) {
  spec.low_rank_norm_eps = kLowRankNormEps;
  constexpr const char* kEps = "/text_config/mla_lora_norm_eps";
  if (config.Has(kEps)) {
    ASSIGN_OR_RETURN(spec.low_rank_norm_eps, config.Number(kEps, 1e-12, 1e-1));
  }
  ASSIGN_OR_RETURN(
      spec.situ.beta,
      config.Number("/text_config/activation_situ_beta", kMinBeta, kMaxBeta));
  constexpr const char* kLinear = "/text_config/activation_situ_linear_beta";
  spec.situ.linear_beta = 0;
  if (config.Has(kLinear)) {
    ASSIGN_OR_RETURN(spec.situ.linear_beta,
                     config.Number(kLinear, kMinBeta, kMaxBeta));
  }
  return absl::OkStatus();
}

// The root names the token ids; text_config may repeat them, not change them.
absl::StatusOr<int32_t> ReadTokenId(const ModelConfig& config,
                                    const std::string& key, int vocab_size) {
  const std::string root = "/" + key;
  const std::string text = "/text_config/" + key;
  const std::string& path = config.Has(root) ? root : text;
  ASSIGN_OR_RETURN(const int64_t id,
                   config.Integer(path, 0, vocab_size - 1, 1));
  if (config.Has(root) && config.Has(text)) {
    ASSIGN_OR_RETURN(const int64_t repeated,
                     config.Integer(text, 0, vocab_size - 1, 1));
    if (repeated != id) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is {}, but text_config.{} is {}", key, id, key, repeated));
    }
  }
  return static_cast<int32_t>(id);
}

absl::Status ReadTokenIds(const ModelConfig& config, ModelSpec& spec) {
  ASSIGN_OR_RETURN(spec.bos_token_id,
                   ReadTokenId(config, "bos_token_id", spec.vocab_size));
  ASSIGN_OR_RETURN(spec.eos_token_id,
                   ReadTokenId(config, "eos_token_id", spec.vocab_size));
  ASSIGN_OR_RETURN(spec.pad_token_id,
                   ReadTokenId(config, "pad_token_id", spec.vocab_size));
  return absl::OkStatus();
}

// The two one-based lists must name every layer exactly once.
absl::Status ReadAttentionKinds(const ModelConfig& config, ModelSpec& spec) {
  const int num_layers = spec.num_hidden_layers;
  spec.attention.assign(num_layers, AttentionKind::kKda);
  std::vector<bool> named(num_layers, false);
  const auto read_list = [&](const std::string& key,
                             AttentionKind kind) -> absl::Status {
    const std::string path = "/text_config/linear_attn_config/" + key;
    ASSIGN_OR_RETURN(const std::vector<int64_t> layers,
                     config.Integers(path, 1, num_layers));
    for (const int64_t layer : layers) {
      if (named[layer - 1]) {
        return absl::InvalidArgumentError(fmt::format(
            "text_config.linear_attn_config: layer {} (one-based) is named "
            "twice, the second time in {}",
            layer, key));
      }
      named[layer - 1] = true;
      spec.attention[layer - 1] = kind;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read_list("kda_layers", AttentionKind::kKda));
  RETURN_IF_ERROR(read_list("full_attn_layers", AttentionKind::kMla));
  for (int layer = 0; layer < num_layers; ++layer) {
    if (named[layer]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "text_config.linear_attn_config: layer {} (one-based) is in neither "
        "kda_layers nor full_attn_layers; num_hidden_layers is {}",
        layer + 1, num_layers));
  }
  return absl::OkStatus();
}

// Rules that join several fields.
absl::Status CheckTogether(const ModelConfig& config, const ModelSpec& spec) {
  constexpr const char* kKvHeads = "/text_config/num_key_value_heads";
  if (config.Has(kKvHeads)) {
    RETURN_IF_ERROR(config
                        .Integer(kKvHeads, spec.num_attention_heads,
                                 spec.num_attention_heads, 1)
                        .status());
  }
  if (spec.num_experts_per_token > spec.num_experts) {
    return absl::InvalidArgumentError(fmt::format(
        "text_config.num_experts_per_token is {}, more than num_experts {}",
        spec.num_experts_per_token, spec.num_experts));
  }
  if (spec.first_k_dense_replace > spec.num_hidden_layers) {
    return absl::InvalidArgumentError(
        fmt::format("text_config.first_k_dense_replace is {}, more than "
                    "num_hidden_layers {}",
                    spec.first_k_dense_replace, spec.num_hidden_layers));
  }
  const int terms =
      spec.num_experts_per_token * spec.expert_shape().num_slices();
  if (terms > kMaxTermsPerSum) {
    return absl::InvalidArgumentError(fmt::format(
        "text_config.num_experts_per_token {} times {} slices of "
        "moe_intermediate_size {} is {} terms a sum; the fixed-point format "
        "holds {}",
        spec.num_experts_per_token, spec.expert_shape().num_slices(),
        spec.moe_intermediate_size, terms, kMaxTermsPerSum));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ModelSpec::Parse(std::string_view config_json) {
  ASSIGN_OR_RETURN(const ModelConfig config, ModelConfig::Parse(config_json));
  RETURN_IF_ERROR(config.CheckFixedFields());
  ModelSpec spec;
  RETURN_IF_ERROR(ReadNumbers(config, spec));
  RETURN_IF_ERROR(ReadOptionalNumbers(config, spec));
  RETURN_IF_ERROR(ReadTokenIds(config, spec));
  RETURN_IF_ERROR(ReadAttentionKinds(config, spec));
  RETURN_IF_ERROR(CheckTogether(config, spec));
  return spec;
}

absl::StatusOr<ModelSpec> ModelSpec::Load(const std::string& model_dir) {
  RETURN_IF_ERROR(RequireUsable(model_dir));
  const std::string path = model_dir + "/config.json";
  ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxConfigBytes));
  absl::StatusOr<ModelSpec> spec = Parse(json);
  if (!spec.ok()) return AddContext(spec.status(), path);
  return spec;
}

}  // namespace deltafin
