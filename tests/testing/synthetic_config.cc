#include "tests/testing/synthetic_config.h"

#include <algorithm>
#include <vector>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// K3's pattern: three KDA layers, one MLA, and the last one MLA.
std::vector<AttentionKind> K3Pattern(int num_layers) {
  std::vector<AttentionKind> kinds(num_layers, AttentionKind::kKda);
  for (int layer = 3; layer < num_layers; layer += 4) {
    kinds[layer] = AttentionKind::kMla;
  }
  kinds.back() = AttentionKind::kMla;
  return kinds;
}

// What all presets share.
ModelSpec CommonSpec(int num_layers, int num_experts) {
  ModelSpec spec;
  spec.num_hidden_layers = num_layers;
  spec.num_experts = num_experts;
  spec.first_k_dense_replace = 1;
  spec.attention = K3Pattern(num_layers);
  spec.rms_norm_eps = 1e-5f;
  spec.low_rank_norm_eps = kLowRankNormEps;
  spec.gate_lower_bound = -5.0f;
  spec.routed_scaling_factor = 1.0f;
  spec.num_shared_experts = 2;
  return spec;
}

// The ids as tokenizers of the family place them: 256 reserved ids at the end.
void SetVocabulary(int vocab_size, ModelSpec& spec) {
  spec.vocab_size = vocab_size;
  spec.bos_token_id = vocab_size - 256;
  spec.eos_token_id = vocab_size - 254;
  spec.pad_token_id = vocab_size - 1;
}

// One-based list of the layers of one kind.
std::string LayerList(const ModelSpec& spec, AttentionKind kind) {
  std::vector<int> layers;
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    if (spec.attention[layer] == kind) layers.push_back(layer + 1);
  }
  return fmt::format("[{}]", fmt::join(layers, ", "));
}

std::string LinearAttentionJson(const ModelSpec& spec) {
  return fmt::format(
      R"({{"full_attn_layers": {}, "kda_layers": {},
      "gate_lower_bound": {}, "head_dim": {}, "num_heads": {},
      "short_conv_kernel_size": 4, "use_full_rank_gate": true}})",
      LayerList(spec, AttentionKind::kMla),
      LayerList(spec, AttentionKind::kKda), spec.gate_lower_bound,
      spec.kda_head_dim, spec.kda_num_heads);
}

constexpr const char* kQuantizationJson =
    R"({"config_groups": {"group_0": {"format": "mxfp4-pack-quantized",
      "input_activations": null, "output_activations": null,
      "targets": ["Linear"], "weights": {"dynamic": false, "group_size": 32,
      "num_bits": 4, "observer": "minmax", "scale_dtype": "torch.uint8",
      "strategy": "group", "symmetric": true, "type": "float"}}},
    "format": "mxfp4-pack-quantized", "kv_cache_scheme": null,
    "quant_method": "compressed-tensors", "quantization_status": "compressed"})";

constexpr const char* kFixedJson =
    R"("model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"],
    "dtype": "bfloat16", "hidden_act": "situ", "latent_moe_use_norm": true,
    "mla_use_nope": true, "mla_use_output_gate": true, "moe_layer_freq": 1,
    "moe_renormalize": true, "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1, "num_nextn_predict_layers": 0, "topk_group": 1,
    "topk_method": "noaux_tc", "use_grouped_topk": true,
    "tie_word_embeddings": false)";

std::string NumbersJson(const ModelSpec& spec) {
  std::string json;
  const auto add = [&json](const char* key, auto value) {
    json += fmt::format("    \"{}\": {},\n", key, value);
  };
  add("vocab_size", spec.vocab_size);
  add("hidden_size", spec.hidden_size);
  add("num_hidden_layers", spec.num_hidden_layers);
  add("intermediate_size", spec.intermediate_size);
  add("first_k_dense_replace", spec.first_k_dense_replace);
  add("attn_res_block_size", spec.attn_res_block_size);
  add("max_position_embeddings", spec.max_position_embeddings);
  add("rms_norm_eps", spec.rms_norm_eps);
  add("mla_lora_norm_eps", spec.low_rank_norm_eps);
  add("num_attention_heads", spec.num_attention_heads);
  add("num_key_value_heads", spec.num_attention_heads);
  add("q_lora_rank", spec.q_lora_rank);
  add("kv_lora_rank", spec.kv_lora_rank);
  add("qk_nope_head_dim", spec.qk_nope_head_dim);
  add("qk_rope_head_dim", spec.qk_rope_head_dim);
  add("v_head_dim", spec.v_head_dim);
  add("num_experts", spec.num_experts);
  add("num_experts_per_token", spec.num_experts_per_token);
  add("num_shared_experts", spec.num_shared_experts);
  add("moe_intermediate_size", spec.moe_intermediate_size);
  add("routed_expert_hidden_size", spec.routed_expert_hidden_size);
  add("routed_scaling_factor", spec.routed_scaling_factor);
  add("activation_situ_beta", spec.situ.beta);
  if (spec.situ.linear_beta != 0) {
    add("activation_situ_linear_beta", spec.situ.linear_beta);
  }
  return json;
}

}  // namespace

ModelSpec TinySpec(int num_layers, int num_experts) {
  ModelSpec spec = CommonSpec(num_layers, num_experts);
  SetVocabulary(640, spec);
  spec.hidden_size = 64;
  spec.intermediate_size = 160;
  spec.attn_res_block_size = 5;
  spec.max_position_embeddings = 4096;
  spec.num_attention_heads = 6;
  spec.q_lora_rank = 24;
  spec.kv_lora_rank = 32;
  spec.qk_nope_head_dim = 16;
  spec.qk_rope_head_dim = 8;
  spec.v_head_dim = 16;
  spec.kda_num_heads = 6;
  spec.kda_head_dim = 16;
  spec.num_experts_per_token = 4;
  spec.moe_intermediate_size = 64;
  spec.routed_expert_hidden_size = 32;
  return spec;
}

ModelSpec FullWidthSpec(int num_layers, int num_experts) {
  ModelSpec spec = CommonSpec(num_layers, num_experts);
  SetVocabulary(4096, spec);
  spec.hidden_size = 7168;
  spec.intermediate_size = 33792;
  spec.attn_res_block_size = 12;
  spec.max_position_embeddings = 1048576;
  spec.num_attention_heads = 96;
  spec.q_lora_rank = 1536;
  spec.kv_lora_rank = 512;
  spec.qk_nope_head_dim = 128;
  spec.qk_rope_head_dim = 64;
  spec.v_head_dim = 128;
  spec.kda_num_heads = 96;
  spec.kda_head_dim = 128;
  spec.num_experts_per_token = 16;
  spec.moe_intermediate_size = 3072;
  spec.routed_expert_hidden_size = 3584;
  return spec;
}

std::string ConfigJson(const ModelSpec& spec) {
  const std::string ids = fmt::format(
      R"("bos_token_id": {}, "eos_token_id": {}, "pad_token_id": {})",
      spec.bos_token_id, spec.eos_token_id, spec.pad_token_id);
  return fmt::format(
      R"({{
  "architectures": ["KimiK3ForConditionalGeneration"],
  "model_type": "kimi_k3", "dtype": "bfloat16",
  "tie_word_embeddings": false, {0},
  "text_config": {{
    {1},
    {0},
{2}    "linear_attn_config": {3},
    "quantization_config": {4}
  }},
  "vision_config": {{"vt_num_hidden_layers": 0}}
}}
)",
      ids, kFixedJson, NumbersJson(spec), LinearAttentionJson(spec),
      kQuantizationJson);
}

}  // namespace deltafin
