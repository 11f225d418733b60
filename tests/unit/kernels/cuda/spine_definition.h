// tests/unit/kernels/cuda/spine_definition.h
//
// The spine's layers in f64 after docs/model.md section 4, one sequence, for
// comparison with a card.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/spine_card.h"

namespace deltafin::testing {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// A matrix as released or quantised, and its values.
struct HostMatrix {
  int rows = 0;
  int cols = 0;
  std::vector<uint16_t> bf16;    // [rows, cols], or:
  std::vector<int8_t> codes;     // [rows, cols]
  std::vector<float> row_scale;  // [rows], with codes

  double At(int r, int c) const;
};

struct HostLayer {
  bool is_mla = false;
  bool is_moe = false;
  std::vector<float> input_norm, post_attention_norm, attention_mix, mlp_mix;
  HostMatrix q, k, v, g, f_a, f_b, b, o;  // KDA; g, o: MLA too
  std::vector<float> taps[3], decay_rate, dt_bias, o_norm;
  HostMatrix q_a, q_b, kv_a;  // MLA
  HostMatrix keys, values;    // [heads nope, latent], [heads v_dim, latent]
  std::vector<float> q_a_norm, kv_a_norm;
  HostMatrix gate, up, down;  // dense, or the shared experts
  HostMatrix router, latent_down, latent_up;
  std::vector<float> bias, latent_norm;
};

// State of the sequence at one layer.
struct HostState {
  Rows matrices;                                     // [heads] of dim * dim
  std::vector<Rows> history = std::vector<Rows>(3);  // q k v, three rows each
  Rows latents;                                      // MLA
};

class SpineDefinition {
 public:
  explicit SpineDefinition(const CudaSpineShape& shape) : shape_(shape) {}

  void Begin(const Rows& embedding);
  void Attend(const HostLayer& layer, bool starts_block, HostState& state);
  void DenseMlp(const HostLayer& layer);
  void Route(const HostLayer& layer);  // fills experts, weights, latents
  void AddRouted(const HostLayer& layer, const Rows& sums);

  Rows prefix;
  std::vector<Rows> snapshots;
  std::vector<std::vector<int>> experts;
  Rows weights;
  Rows latents;

 private:
  Rows Input(const std::vector<float>& mix, const std::vector<float>& norm);
  Row Kda(const HostLayer& layer, const Row& x, HostState& state);
  Row Mla(const HostLayer& layer, const Row& x, HostState& state);
  Row Mlp(const HostLayer& layer, const Row& x) const;

  const CudaSpineShape shape_;
  Rows mlp_input_;
};

}  // namespace deltafin::testing
