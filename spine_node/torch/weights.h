// spine_node/torch/weights.h
//
// A spine's weights on one device, read by name through the
// host. Names are the checkpoint's (docs/model.md section 2).
#pragma once

#include <ATen/ATen.h>

#include <initializer_list>
#include <string>

#include "spine_node/torch/matrix.h"
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

// Reads tensors; counts the bytes that stay. Throws SpineError when the host
// fails.
class WeightReader {
 public:
  WeightReader(const DeltafinWeightSource& source, at::Device device,
               Storage storage);

  // f32.
  at::Tensor Read(const std::string& name,
                  std::initializer_list<int64_t> shape);
  // A matrix as the storage says, or, one that stays bf16 in every spine, as
  // bf16 where matrices are packed.
  Matrix ReadMatrix(const std::string& name, int64_t rows, int64_t cols);
  Matrix ReadBf16Matrix(const std::string& name, int64_t rows, int64_t cols);
  // The same without packing: f32, or bf16 where matrices are packed.
  at::Tensor Narrow(const at::Tensor& values);

  int64_t bytes() const { return bytes_; }

 private:
  at::Tensor ReadUncounted(const std::string& name,
                           std::initializer_list<int64_t> shape);
  Matrix Counted(Matrix matrix);

  const DeltafinWeightSource& source_;
  at::Device device_;
  Storage storage_;
  int64_t bytes_ = 0;
};

struct KdaWeights {
  Matrix q, k, v, g, f_a, b, o;
  at::Tensor f_b;                     // [width, dim] f32 or bf16
  at::Tensor q_conv, k_conv, v_conv;  // [width, 4]
  at::Tensor decay_rate;              // [heads] exp(A_log)
  at::Tensor dt_bias;                 // [heads, dim]
  at::Tensor o_norm;                  // [dim]
};

struct MlaWeights {
  Matrix q_a, q_b, kv_a, g, o;
  at::Tensor q_a_norm, kv_a_norm;
  at::Tensor key_up;    // [heads, nope, rank] f32 or bf16
  at::Tensor value_up;  // [heads, v_dim, rank] f32 or bf16
};

struct MlpWeights {
  Matrix gate, up, down;
};

struct MoeWeights {
  Matrix router, down, up;  // the last two: latent
  at::Tensor bias, norm;    // [E], [L]
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
  at::Tensor output_mix, norm;
  Matrix lm_head;
};

LayerWeights ReadLayer(const DeltafinModel& model, int layer,
                       WeightReader& reader);
HeadWeights ReadHead(const DeltafinModel& model, WeightReader& reader);

}  // namespace deltafin::torch_spine
