// spine_node/torch_abi.h
//
// The border between this program and the loadable libtorch spine: plain C, so
// that neither side's C++ library, abseil or protobuf can meet the other's. The
// module is opened with local symbol scope and asked for `deltafin_torch_api`.
// Everything is called from one thread.
//
// Functions that can fail return a canonical status code (0 is OK, numbers as
// in absl::StatusCode); the message is then in last_error(spine), valid until
// the next call. Pointers returned live until the next step unless said.
#pragma once

#include <stdint.h>

#define DELTAFIN_TORCH_ABI_VERSION 2u

extern "C" {

// ModelSpec's numbers (common/base/model_spec.h).
struct DeltafinModel {
  int32_t vocab_size;
  int32_t hidden_size;
  int32_t num_hidden_layers;
  int32_t intermediate_size;
  int32_t first_k_dense_replace;
  int32_t attn_res_block_size;
  float rms_norm_eps;
  float low_rank_norm_eps;
  float l2_norm_eps;
  int32_t num_attention_heads;
  int32_t q_lora_rank;
  int32_t kv_lora_rank;
  int32_t qk_nope_head_dim;
  int32_t qk_rope_head_dim;
  int32_t v_head_dim;
  int32_t kda_num_heads;
  int32_t kda_head_dim;
  float gate_lower_bound;
  int32_t num_experts;
  int32_t num_experts_per_token;
  int32_t num_shared_experts;
  int32_t moe_intermediate_size;
  int32_t latent_size;
  float routed_scaling_factor;
  float situ_beta;
  float situ_linear_beta;  // 0: the up branch is taken as it is
  const uint8_t* is_mla;   // [num_hidden_layers]
};

// How the module reads weights: it never opens a file.
struct DeltafinWeightSource {
  void* context;
  // Fills out with the tensor of that name and shape widened to f32. A failure
  // is reported by the host; the module only passes the code on.
  int32_t (*read_tensor)(void* context, const char* name, const int64_t* shape,
                         int64_t num_dims, float* out);
  // Rows of the embedding, [num_ids, hidden_size].
  int32_t (*read_embedding)(void* context, const int32_t* ids, int64_t num_ids,
                            float* out);
};

struct DeltafinTorchOptions {
  const char* device;  // "cpu", "cuda", "cuda:1", "mps"
  // How matrices are kept: "f32"; "bf16", their released values; "int8", the
  // rows of docs/numerics.md section 5. With the last two a CUDA device runs
  // steps of few tokens on our own kernels.
  const char* storage;
  int32_t num_threads;
  int64_t generation_bytes;  // retained states of one sequence
  // Layers [0, num_layers) are held, and the head if has_head.
  int32_t num_layers;
  int32_t has_head;
};

// Rows of a step between two layers on the host, each [T, H], T its ids.
struct DeltafinRows {
  const float* prefix;
  const float* const* snapshots;
  int32_t num_snapshots;
};

struct DeltafinSlice {
  void* state;
  const int32_t* ids;
  int64_t num_ids;
  int32_t logits;  // LogitsRows
};

struct DeltafinRouted {
  int32_t num_tokens;
  const int32_t* experts;  // [T, K] ascending
  const float* weights;    // [T, K]
  const float* latent;     // [T, L]
};

struct DeltafinTorchApi {
  uint32_t version;  // DELTAFIN_TORCH_ABI_VERSION
  const char* libtorch_version;

  // *spine is set even on failure (for last_error) unless memory for it is
  // lacking.
  int32_t (*create)(const DeltafinModel* model,
                    const DeltafinTorchOptions* options,
                    const DeltafinWeightSource* weights, void** spine);
  void (*destroy)(void* spine);
  const char* (*last_error)(void* spine);
  int64_t (*weight_bytes)(void* spine);

  int32_t (*new_sequence)(void* spine, void** state);
  int32_t (*fork)(void* spine, void* state, void** copy);
  void (*free_sequence)(void* spine, void* state);
  int64_t (*sequence_tokens)(void* state);
  int64_t (*sequence_bytes)(void* state);
  int32_t (*retain_generation)(void* spine, void* state);
  int32_t (*truncate)(void* spine, void* state, int64_t num_tokens,
                      int64_t* retained);

  int32_t (*embed)(void* spine, const DeltafinSlice* slices,
                   int64_t num_slices);
  int32_t (*attend)(void* spine, int32_t layer);
  int32_t (*dense_mlp)(void* spine, int32_t layer);
  int32_t (*route)(void* spine, int32_t layer, DeltafinRouted* routed);
  int32_t (*shared_experts)(void* spine, int32_t layer);
  int32_t (*add_routed_experts)(void* spine, int32_t layer,
                                const int64_t* sums);
  int32_t (*logits)(void* spine, const float** rows, int64_t* num_rows);
  // The rows after the last layer that ran.
  int32_t (*rows)(void* spine, struct DeltafinRows* rows);
  // Ends a step without logits; its sequences hold their ids.
  int32_t (*end_step)(void* spine);
  void (*abandon_step)(void* spine);
};

// The module's one exported function.
typedef const DeltafinTorchApi* (*DeltafinTorchApiFunction)(void);
#define DELTAFIN_TORCH_API_SYMBOL "deltafin_torch_api"

}  // extern "C"
