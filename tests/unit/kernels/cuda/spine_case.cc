#include "tests/unit/kernels/cuda/spine_case.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "kernels/cuda/spine_tiles.h"

namespace deltafin::testing {

CudaSpineShape SmallSpineShape(bool wide) {
  CudaSpineShape s;
  s.hidden_size = wide ? 712 : 192;
  s.num_snapshots = 3;
  s.rms_norm_eps = 1e-5f;
  s.low_rank_norm_eps = 1e-6f;
  s.l2_norm_eps = 1e-6f;
  s.kda_num_heads = wide ? 5 : 4;
  s.kda_head_dim = wide ? 128 : 32;
  s.gate_lower_bound = -5;
  s.num_attention_heads = wide ? 7 : 4;
  s.q_lora_rank = wide ? 200 : 64;
  s.kv_lora_rank = wide ? 512 : 64;
  s.qk_nope_head_dim = wide ? 128 : 32;
  s.qk_rope_head_dim = wide ? 64 : 16;
  s.v_head_dim = wide ? 128 : 32;
  s.dense_width = wide ? 1364 : 320;
  s.shared_width = wide ? 640 : 64;
  s.num_experts = wide ? 896 : 64;
  s.top_k = wide ? 16 : 4;
  s.latent_size = wide ? 356 : 96;
  s.routed_scaling_factor = 1.25f;
  s.vocab_size = 640;
  return s;
}

HostMatrix RandomSpine::Matrix(int rows, int cols, bool int8) {
  HostMatrix m;
  m.rows = rows;
  m.cols = cols;
  const float spread = 1.0f / std::sqrt(static_cast<float>(cols));
  std::normal_distribution<float> normal(0, spread);
  for (size_t i = 0; i < size_t{1} * rows * cols; ++i) {
    const float v = normal(random_);
    if (int8) {
      m.codes.push_back(
          static_cast<int8_t>(std::lround(std::fmin(v / spread, 3.0f) * 40)));
    } else {
      m.bf16.push_back(cuda::NearestBf16(v));
    }
  }
  if (int8) m.row_scale = Vector(rows, spread / 40, spread / 80);
  return m;
}

std::vector<float> RandomSpine::Vector(int count, float middle, float spread) {
  std::uniform_real_distribution<float> uniform(middle - spread,
                                                middle + spread);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random_);
  return values;
}

Rows RandomSpine::Vectors(int count, int width) {
  Rows rows(count);
  for (Row& row : rows) {
    const std::vector<float> values = Vector(width, 0, 1.7f);
    row.assign(values.begin(), values.end());
  }
  return rows;
}

HostLayer RandomSpine::Layer(bool is_mla, bool is_moe) {
  const CudaSpineShape& s = shape_;
  const int hidden = s.hidden_size;
  const int width = is_mla ? s.num_attention_heads * s.v_head_dim
                           : s.kda_num_heads * s.kda_head_dim;
  HostLayer w;
  w.is_mla = is_mla;
  w.is_moe = is_moe;
  w.input_norm = Vector(hidden, 1, 0.5f);
  w.post_attention_norm = Vector(hidden, 1, 0.5f);
  w.attention_mix = Vector(hidden, 0, 0.1f);
  w.mlp_mix = Vector(hidden, 0, 0.1f);
  w.g = Matrix(width, hidden, int8_);
  w.o = Matrix(hidden, width, int8_);
  if (is_mla) {
    const int key = s.kv_lora_rank + s.qk_rope_head_dim;
    const int heads = s.num_attention_heads;
    w.q_a = Matrix(s.q_lora_rank, hidden, int8_);
    w.q_b = Matrix(heads * (s.qk_nope_head_dim + s.qk_rope_head_dim),
                   s.q_lora_rank, int8_);
    w.kv_a = Matrix(key, hidden, int8_);
    w.keys = Matrix(heads * s.qk_nope_head_dim, s.kv_lora_rank, false);
    w.values = Matrix(heads * s.v_head_dim, s.kv_lora_rank, false);
    w.q_a_norm = Vector(s.q_lora_rank, 1, 0.5f);
    w.kv_a_norm = Vector(s.kv_lora_rank, 1, 0.5f);
  } else {
    for (HostMatrix* m : {&w.q, &w.k, &w.v}) *m = Matrix(width, hidden, int8_);
    w.f_a = Matrix(s.kda_head_dim, hidden, false);
    w.f_b = Matrix(width, s.kda_head_dim, false);
    w.b = Matrix(s.kda_num_heads, hidden, false);
    for (auto& taps : w.taps) taps = Vector(4 * width, 0.2f, 0.6f);
    w.decay_rate = Vector(s.kda_num_heads, 1.5f, 1);
    w.dt_bias = Vector(width, 0, 1);
    w.o_norm = Vector(s.kda_head_dim, 1, 0.5f);
  }
  const int feed = is_moe ? s.shared_width : s.dense_width;
  w.gate = Matrix(feed, hidden, int8_);
  w.up = Matrix(feed, hidden, int8_);
  w.down = Matrix(hidden, feed, int8_);
  if (is_moe) {
    w.router = Matrix(s.num_experts, hidden, false);
    w.bias = Vector(s.num_experts, 0, 0.2f);
    w.latent_down = Matrix(s.latent_size, hidden, int8_);
    w.latent_up = Matrix(hidden, s.latent_size, int8_);
    w.latent_norm = Vector(s.latent_size, 1, 0.5f);
  }
  return w;
}

HostState EmptyHostState(const CudaSpineShape& s) {
  HostState state;
  const int dim = s.kda_head_dim;
  state.matrices.assign(s.kda_num_heads, Row(dim * dim));
  for (Rows& history : state.history) {
    history.assign(3, Row(s.kda_num_heads * dim));
  }
  return state;
}

const uint8_t* CardCopies::Bytes(const void* from, size_t count) {
  std::string why;
  memory_.push_back(CudaMemory::Allocate(card_, count, &why));
  EXPECT_NE(memory_.back(), nullptr) << why;
  EXPECT_TRUE(memory_.back()->CopyIn(0, from, count, &why)) << why;
  return memory_.back()->data();
}

float* CardCopies::Zeros(size_t count) {
  const std::vector<float> zeros(count);
  return const_cast<float*>(Upload(zeros));
}

CudaMatrix CardCopies::Upload(const HostMatrix& m) {
  if (m.rows == 0) return {};
  const bool int8 = !m.codes.empty();
  const int value_bytes = int8 ? 1 : 2;
  const int stages = cuda::SpineStages(m.cols, value_bytes);
  std::vector<uint8_t> tiles(CudaMatrixBytes(m.rows, m.cols, int8));
  for (int r = 0; r < m.rows; ++r) {
    for (int c = 0; c < m.cols; ++c) {
      const int byte = c * value_bytes;
      const size_t tile = size_t{1} * (r / 32) * stages + byte / 128;
      const size_t i = size_t{1} * r * m.cols + c;
      const void* value = int8 ? static_cast<const void*>(&m.codes[i])
                               : static_cast<const void*>(&m.bf16[i]);
      std::memcpy(&tiles[tile * 4096 + r % 32 * 128 + byte % 128], value,
                  value_bytes);
    }
  }
  return {Upload(tiles), int8 ? Upload(m.row_scale) : nullptr, m.rows, m.cols};
}

CudaSpineLayer CardCopies::Upload(const HostLayer& w) {
  CudaSpineLayer layer;
  layer.is_mla = w.is_mla;
  layer.input_norm = Upload(w.input_norm);
  layer.post_attention_norm = Upload(w.post_attention_norm);
  layer.attention_mix = Upload(w.attention_mix);
  layer.mlp_mix = Upload(w.mlp_mix);
  if (w.is_mla) {
    layer.mla = {
        Upload(w.q_a),       Upload(w.q_b),       Upload(w.kv_a),
        Upload(w.g),         Upload(w.o),         Upload(w.q_a_norm),
        Upload(w.kv_a_norm), Upload(w.keys.bf16), Upload(w.values.bf16)};
  } else {
    layer.kda = {Upload(w.q),
                 Upload(w.k),
                 Upload(w.v),
                 Upload(w.g),
                 Upload(w.f_a),
                 Upload(w.b),
                 Upload(w.o),
                 Upload(w.f_b.bf16),
                 {Upload(w.taps[0]), Upload(w.taps[1]), Upload(w.taps[2])},
                 Upload(w.decay_rate),
                 Upload(w.dt_bias),
                 Upload(w.o_norm)};
  }
  const CudaMlpWeights mlp = {Upload(w.gate), Upload(w.up), Upload(w.down)};
  if (!w.is_moe) {
    layer.dense = mlp;
    return layer;
  }
  layer.moe = {Upload(w.router), Upload(w.latent_down), Upload(w.latent_up),
               Upload(w.bias),   Upload(w.latent_norm), mlp};
  return layer;
}

}  // namespace deltafin::testing
