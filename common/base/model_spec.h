// common/base/model_spec.h
//
// What config.json says about a model of the K3 family. Immutable after Parse;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/expert_weights.h"

namespace deltafin {

enum class AttentionKind : uint8_t { kKda, kMla };

// Field names are the checkpoint's. Layers are zero-based here; the one-based
// lists of config.json are converted once, in Parse.
struct ModelSpec {
  int vocab_size = 0;   // V
  int hidden_size = 0;  // H
  int num_hidden_layers = 0;
  int intermediate_size = 0;      // dense layers' MLP width
  int first_k_dense_replace = 0;  // layers [0, this) are dense
  int attn_res_block_size = 0;
  int64_t max_position_embeddings = 0;
  float rms_norm_eps = 0;
  float low_rank_norm_eps = 0;  // q_a_layernorm and kv_a_layernorm: optional
                                // `mla_lora_norm_eps`, else kLowRankNormEps
  // MLA
  int num_attention_heads = 0;
  int q_lora_rank = 0;
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  // KDA (linear_attn_config)
  int kda_num_heads = 0;
  int kda_head_dim = 0;
  float gate_lower_bound = 0;
  std::vector<AttentionKind> attention;  // [num_hidden_layers]
  // MoE
  int num_experts = 0;            // E
  int num_experts_per_token = 0;  // K
  int num_shared_experts = 0;
  int moe_intermediate_size = 0;      // I
  int routed_expert_hidden_size = 0;  // L, the latent width
  float routed_scaling_factor = 0;
  SituParams situ;
  // Tokens
  int32_t bos_token_id = 0;
  int32_t eos_token_id = 0;  // ends a message: K3's <|end_of_msg|>
  int32_t pad_token_id = 0;

  // Parses and validates config.json. Errors: INVALID_ARGUMENT naming the
  // field, its value and what is supported.
  static absl::StatusOr<ModelSpec> Parse(std::string_view config_json);
  // Reads dir/config.json. Errors: NOT_FOUND, INVALID_ARGUMENT, both with the
  // path.
  static absl::StatusOr<ModelSpec> Load(const std::string& model_dir);

  bool is_moe(int layer) const { return layer >= first_k_dense_replace; }
  int num_moe_layers() const {
    return num_hidden_layers - first_k_dense_replace;
  }
  int num_snapshots() const {
    return (num_hidden_layers + attn_res_block_size - 1) / attn_res_block_size;
  }
  int kda_width() const { return kda_num_heads * kda_head_dim; }
  ExpertShape expert_shape() const {
    return {routed_expert_hidden_size, moe_intermediate_size};
  }
};

// The one place for the two epsilons that config.json does not carry
// (docs/model.md 4.4, 4.5).
inline constexpr float kLowRankNormEps = 1e-6f;
inline constexpr float kL2NormEps = 1e-6f;

}  // namespace deltafin
