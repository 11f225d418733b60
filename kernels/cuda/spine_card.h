// kernels/cuda/spine_card.h
//
// The spine's layers on an NVIDIA card for steps of up to eight tokens, at the
// speed of the card's memory (docs/cuda.md, "The spine"). Within the golden
// tolerances of the CPU spine and equal from run to run; not bit-equal to it. A
// program built without CUDA has the same functions, which say so. Not
// thread-safe.
//
// Functions that may fail return false or nullptr with one sentence in *why
// that names the card. Calls only start work on the stream unless they say that
// they wait. After a failure the step is lost: Begin starts the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace deltafin {

inline constexpr int kCudaSpineTokens = 8;

// What a CudaSpine is made for; names as in ModelSpec.
struct CudaSpineShape {
  int hidden_size = 0;
  int num_snapshots = 0;
  float rms_norm_eps = 0;
  float low_rank_norm_eps = 0;
  float l2_norm_eps = 0;
  int kda_num_heads = 0;
  int kda_head_dim = 0;
  float gate_lower_bound = 0;
  int num_attention_heads = 0;
  int q_lora_rank = 0;
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  int dense_width = 0;
  int shared_width = 0;
  int num_experts = 0;
  int top_k = 0;
  int latent_size = 0;
  float routed_scaling_factor = 0;
  float situ_beta = 4;
  float situ_linear_beta = 25;  // 0: the up branch is taken as it is
  int vocab_size = 0;
};

// A matrix in the card's memory: CudaMatrixBytes bytes, 16-byte aligned, in
// tiles of 32 rows and 128 bytes that are row-major inside and zero padded; the
// tiles of 32 rows lie one after the other along the columns.
struct CudaMatrix {
  const void* tiles = nullptr;
  const float* row_scale = nullptr;  // [rows]: values are int8; null: bf16
  int rows = 0;
  int cols = 0;
};
size_t CudaMatrixBytes(int rows, int cols, bool int8);

// Vectors are f32, small matrices bf16 in row order, all in the card's memory.
struct CudaKdaWeights {
  CudaMatrix q, k, v, g, f_a, b, o;
  const uint16_t* f_b = nullptr;      // [width, dim]
  const float* taps[3] = {};          // q k v, [width, 4]
  const float* decay_rate = nullptr;  // [heads] exp(A_log)
  const float* dt_bias = nullptr;     // [width]
  const float* o_norm = nullptr;      // [dim]
};

struct CudaMlaWeights {
  CudaMatrix q_a, q_b, kv_a, g, o;
  const float* q_a_norm = nullptr;
  const float* kv_a_norm = nullptr;
  const uint16_t* keys = nullptr;    // [heads, nope, latent]
  const uint16_t* values = nullptr;  // [heads, v_dim, latent]
};

struct CudaMlpWeights {
  CudaMatrix gate, up, down;
};

struct CudaMoeWeights {
  CudaMatrix router, latent_down, latent_up;
  const float* bias = nullptr;
  const float* latent_norm = nullptr;
  CudaMlpWeights shared;
};

struct CudaSpineLayer {
  bool is_mla = false;
  const float* input_norm = nullptr;
  const float* post_attention_norm = nullptr;
  const float* attention_mix = nullptr;  // [H] norm_w * proj_w
  const float* mlp_mix = nullptr;
  CudaKdaWeights kda;
  CudaMlaWeights mla;
  CudaMlpWeights dense;
  CudaMoeWeights moe;
};

struct CudaSpineHead {
  const float* output_mix = nullptr;
  const float* norm = nullptr;
  CudaMatrix lm_head;
};

// One sequence of a step at one layer; its rows are in order in the step.
struct CudaSequence {
  int count = 0;                // of the step's tokens
  float* kda_matrix = nullptr;  // [heads, dim, dim], updated
  float* kda_history[3] = {};   // q k v, [3, width] oldest first, updated
  float* mla_rows = nullptr;    // room for mla_position + count rows
  int64_t mla_position = 0;     // rows that are there
};

// Of the step's T tokens, on the host until the next Route.
struct CudaRouted {
  const int32_t* experts = nullptr;  // [T, top_k] ascending
  const float* weights = nullptr;    // [T, top_k]
  const float* latents = nullptr;    // [T, latent]
};

class CudaSpine {
 public:
  // Whether the kernels take these extents: hidden_size and the like multiples
  // of 4, kda_head_dim 16 to 128, and so on. *why names the first that is not.
  static bool Supports(const CudaSpineShape& shape, std::string* why);
  // `stream`: a cudaStream_t of the card, which must outlive this; null: one of
  // its own, in order with the card's legacy default stream (libtorch's). Takes
  // some tens of MB of the card's memory.
  static std::unique_ptr<CudaSpine> Create(int card,
                                           const CudaSpineShape& shape,
                                           void* stream, std::string* why);
  ~CudaSpine();
  CudaSpine(const CudaSpine&) = delete;
  CudaSpine& operator=(const CudaSpine&) = delete;

  // Starts a step: embedding rows [num_tokens, hidden] in the host's or the
  // card's memory.
  bool Begin(const float* rows, int num_tokens, std::string* why);

  // The calls of spine_node/spine.h. `starts_block`: the layer begins an
  // attention-residual block. The sequences are those of the step, at most
  // eight.
  bool Attend(const CudaSpineLayer& layer, bool starts_block,
              const CudaSequence* sequences, int num_sequences,
              std::string* why);
  bool DenseMlp(const CudaSpineLayer& layer, std::string* why);
  // Starts the router and the latent projection.
  bool Route(const CudaSpineLayer& layer, std::string* why);
  // Waits for them. *finite: no inf or NaN came up to here.
  bool TakeRouted(CudaRouted* routed, bool* finite, std::string* why);
  bool SharedExperts(const CudaSpineLayer& layer, std::string* why);
  // sums: [T, latent] in the host's memory or in the card's, where they must
  // stay until the step has ended.
  bool AddRoutedExperts(const CudaSpineLayer& layer, const int64_t* sums,
                        std::string* why);
  // Logits of all T rows, [T, vocab] in the card's memory.
  bool Logits(const CudaSpineHead& head, const float** logits,
              std::string* why);

  // The prefix [T, hidden] and the snapshots up to here, in the card's memory.
  bool Prefix(const float** rows, std::string* why);
  int num_snapshots() const;
  const float* snapshot(int index) const;
  // Waits, then copies floats of the card's memory to the host.
  bool Fetch(const float* from, size_t count, float* to, std::string* why);

  void* stream() const;

 private:
  struct State;
  explicit CudaSpine(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace deltafin
