// spine_node/spine_weights.h
//
// The weights of a CPU spine as its layers read them: matrices in tile order,
// vectors in f32. Views point into the memory of the same structure, so a
// LayerWeights moves but is not copied. Immutable after loading, but for the
// views of layers that stream; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/model_spec.h"
#include "common/base/safetensors.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

// Kimi delta attention, docs/model.md 4.3 and 4.4. n heads of width d, W = n d.
struct KdaWeights {
  LinearWeights q, k, v, g;  // [W, H]
  LinearWeights f_a;         // [d, H]
  LinearWeights f_b;         // [W, d]
  LinearWeights b;           // [n, H]
  LinearWeights o;           // [H, W]
  // Taps of the short convolutions, [n][4][d]: tap 3 meets the present token.
  const float* q_taps = nullptr;
  const float* k_taps = nullptr;
  const float* v_taps = nullptr;
  const float* decay_rate = nullptr;  // [n] exp(A_log[head])
  const float* dt_bias = nullptr;     // [W]
  const float* o_norm = nullptr;      // [d], shared by the heads
};

// Multi-head latent attention in absorbed form, docs/model.md 4.5.
struct MlaWeights {
  LinearWeights q_a;                  // [q_lora_rank, H]
  LinearWeights q_b;                  // [n (nope + rope), q_lora_rank]
  LinearWeights kv_a;                 // [latent + rope, H]
  LinearWeights g;                    // [n v_head_dim, H]
  LinearWeights o;                    // [H, n v_head_dim]
  std::vector<LinearWeights> keys;    // per head, transposed: [latent, nope]
  std::vector<LinearWeights> values;  // per head: [v_head_dim, latent]
  const float* q_a_norm = nullptr;    // [q_lora_rank]
  const float* kv_a_norm = nullptr;   // [latent]
};

// Gated unit down(SiTU(gate x, up x)): the dense MLP and the shared experts.
struct MlpWeights {
  LinearWeights gate, up;  // [F, H]
  LinearWeights down;      // [H, F]
};

// All of a mixture layer but its routed experts, docs/model.md 4.8 and 4.9.
struct MoeWeights {
  LinearWeights router;                    // [E, H]
  const float* correction_bias = nullptr;  // [E]
  LinearWeights latent_down;               // [L, H]
  const float* latent_norm = nullptr;      // [L]
  LinearWeights latent_up;                 // [H, L]
  MlpWeights shared;
};

// Memory that the views of one unit point into.
struct WeightMemory {
  // Vectors and the small matrices that are bf16 in every spine.
  AlignedBuffer dense;
  // The large matrices, bf16 or int8 rows: payload of the unit's spine file.
  // Empty where the layer streams; its views then point into the stream.
  AlignedBuffer rows;
};

struct LayerWeights {
  AttentionKind attention_kind = AttentionKind::kKda;
  bool is_moe = false;
  const float* input_norm = nullptr;           // [H]
  const float* post_attention_norm = nullptr;  // [H]
  // norm_w * proj_w of the two attention-residual sites, [H].
  const float* attention_residual = nullptr;
  const float* mlp_residual = nullptr;
  KdaWeights kda;    // attention_kind == kKda
  MlaWeights mla;    // attention_kind == kMla
  MlpWeights dense;  // !is_moe
  MoeWeights moe;    // is_moe
  WeightMemory memory;
};

// What stands outside the layers, docs/model.md 2.1.
struct HeadWeights {
  const float* output_residual = nullptr;  // [H] norm_w * proj_w
  const float* norm = nullptr;             // [H]
  LinearWeights lm_head;                   // [V, H]
  WeightMemory memory;
};

class StreamedLayers;

struct SpineWeights {
  SpineWeights();
  ~SpineWeights();
  SpineWeights(SpineWeights&&) noexcept;
  SpineWeights& operator=(SpineWeights&&) noexcept;

  ModelSpec spec;
  std::unique_ptr<Checkpoint> checkpoint;  // keeps the embedding's file open
  TensorLocation embedding;                // [V, H] bf16, read by row
  std::vector<LayerWeights> layers;
  HeadWeights head;
  std::unique_ptr<StreamedLayers> stream;  // null: all is in memory
  size_t resident_bytes = 0;  // in memory, buffers of the stream included
};

}  // namespace deltafin
