// spine_node/torch/weights.h
//
// A spine's weights as f32 tensors on one device, read by name through the
// host. Names are the checkpoint's (docs/model.md section 2).
#pragma once

#include <ATen/ATen.h>

#include <initializer_list>
#include <string>

#include "spine_node/torch_abi.h"

namespace deltafin::torch_spine {

// Carries a status code through libtorch code to the C border.
struct SpineError {
  int32_t code;
  std::string message;
};

inline constexpr int32_t kInvalidArgument = 3;
inline constexpr int32_t kFailedPrecondition = 9;
inline constexpr int32_t kOutOfRange = 11;
inline constexpr int32_t kInternal = 13;

// Reads tensors; counts their bytes. Throws SpineError when the host fails.
class WeightReader {
 public:
  WeightReader(const DeltafinWeightSource& source, at::Device device);

  at::Tensor Read(const std::string& name,
                  std::initializer_list<int64_t> shape);
  int64_t bytes() const { return bytes_; }

 private:
  const DeltafinWeightSource& source_;
  at::Device device_;
  int64_t bytes_ = 0;
};

struct KdaWeights {
  at::Tensor q, k, v, g, f_a, f_b, b, o;  // [out, in]
  at::Tensor q_conv, k_conv, v_conv;      // [width, 4]
  at::Tensor decay_rate;                  // [heads] exp(A_log)
  at::Tensor dt_bias;                     // [heads, dim]
  at::Tensor o_norm;                      // [dim]
};

struct MlaWeights {
  at::Tensor q_a, q_a_norm, q_b, kv_a, kv_a_norm, g, o;
  at::Tensor key_up;    // [heads, nope, rank]
  at::Tensor value_up;  // [heads, v_dim, rank]
};

struct MlpWeights {
  at::Tensor gate, up, down;
};

struct MoeWeights {
  at::Tensor router, bias;    // [E, H], [E]
  at::Tensor down, norm, up;  // latent
  MlpWeights shared;
};

struct LayerWeights {
  at::Tensor input_norm, post_attention_norm;
  at::Tensor attention_mix, mlp_mix;  // [H] norm_w * proj_w
  KdaWeights kda;                     // one of the two is filled
  MlaWeights mla;
  MlpWeights dense;  // dense layers
  MoeWeights moe;    // the others
};

struct HeadWeights {
  at::Tensor output_mix, norm, lm_head;
};

LayerWeights ReadLayer(const DeltafinModel& model, int layer,
                       WeightReader& reader);
HeadWeights ReadHead(const DeltafinModel& model, WeightReader& reader);

}  // namespace deltafin::torch_spine
