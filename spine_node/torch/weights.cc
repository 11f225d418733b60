#include "spine_node/torch/weights.h"

namespace deltafin::torch_spine {
namespace {

constexpr char kModel[] = "language_model.model.";
constexpr int64_t kConvTaps = 4;

at::Tensor ReadMix(WeightReader& reader, const std::string& prefix,
                   int64_t hidden) {
  return reader.Read(prefix + "_norm.weight", {hidden}) *
         reader.Read(prefix + "_proj.weight", {1, hidden}).squeeze(0);
}

KdaWeights ReadKda(const DeltafinModel& m, const std::string& prefix,
                   WeightReader& reader) {
  const int64_t hidden = m.hidden_size;
  const int64_t heads = m.kda_num_heads;
  const int64_t dim = m.kda_head_dim;
  const int64_t width = heads * dim;
  const auto read = [&](const char* name, std::initializer_list<int64_t> s) {
    return reader.Read(prefix + name, s);
  };
  KdaWeights w;
  w.q = reader.ReadMatrix(prefix + "q_proj.weight", width, hidden);
  w.k = reader.ReadMatrix(prefix + "k_proj.weight", width, hidden);
  w.v = reader.ReadMatrix(prefix + "v_proj.weight", width, hidden);
  w.g = reader.ReadMatrix(prefix + "g_proj.weight", width, hidden);
  w.f_a = reader.ReadBf16Matrix(prefix + "f_a_proj.weight", dim, hidden);
  w.f_b = reader.Narrow(read("f_b_proj.weight", {width, dim}));
  w.b = reader.ReadBf16Matrix(prefix + "b_proj.weight", heads, hidden);
  w.o = reader.ReadMatrix(prefix + "o_proj.weight", hidden, width);
  w.q_conv = read("q_conv1d.weight", {width, 1, kConvTaps}).squeeze(1);
  w.k_conv = read("k_conv1d.weight", {width, 1, kConvTaps}).squeeze(1);
  w.v_conv = read("v_conv1d.weight", {width, 1, kConvTaps}).squeeze(1);
  // One scalar a head; the stored tensor is zero-padded to the head dimension.
  w.decay_rate = read("A_log", {std::max(heads, dim)})
                     .narrow(0, 0, heads)
                     .exp()
                     .contiguous();
  w.dt_bias = read("dt_bias", {width}).reshape({heads, dim});
  w.o_norm = read("o_norm.weight", {dim});
  return w;
}

MlaWeights ReadMla(const DeltafinModel& m, const std::string& prefix,
                   WeightReader& reader) {
  const int64_t hidden = m.hidden_size;
  const int64_t heads = m.num_attention_heads;
  const int64_t nope = m.qk_nope_head_dim;
  const int64_t rank = m.kv_lora_rank;
  const int64_t values = heads * m.v_head_dim;
  const auto read = [&](const char* name, std::initializer_list<int64_t> s) {
    return reader.Read(prefix + name, s);
  };
  MlaWeights w;
  w.q_a = reader.ReadMatrix(prefix + "q_a_proj.weight", m.q_lora_rank, hidden);
  w.q_a_norm = read("q_a_layernorm.weight", {m.q_lora_rank});
  w.q_b = reader.ReadMatrix(prefix + "q_b_proj.weight",
                            heads * (nope + m.qk_rope_head_dim), m.q_lora_rank);
  w.kv_a = reader.ReadMatrix(prefix + "kv_a_proj_with_mqa.weight",
                             rank + m.qk_rope_head_dim, hidden);
  w.kv_a_norm = read("kv_a_layernorm.weight", {rank});
  const at::Tensor kv_b =
      read("kv_b_proj.weight", {heads * (nope + m.v_head_dim), rank})
          .reshape({heads, nope + m.v_head_dim, rank});
  w.key_up = reader.Narrow(kv_b.narrow(1, 0, nope));
  w.value_up = reader.Narrow(kv_b.narrow(1, nope, m.v_head_dim));
  w.g = reader.ReadMatrix(prefix + "g_proj.weight", values, hidden);
  w.o = reader.ReadMatrix(prefix + "o_proj.weight", hidden, values);
  return w;
}

MlpWeights ReadMlp(const std::string& prefix, int64_t hidden, int64_t width,
                   WeightReader& reader) {
  return {reader.ReadMatrix(prefix + "gate_proj.weight", width, hidden),
          reader.ReadMatrix(prefix + "up_proj.weight", width, hidden),
          reader.ReadMatrix(prefix + "down_proj.weight", hidden, width)};
}

MoeWeights ReadMoe(const DeltafinModel& m, const std::string& prefix,
                   WeightReader& reader) {
  const int64_t hidden = m.hidden_size;
  const int64_t latent = m.latent_size;
  MoeWeights w;
  w.router =
      reader.ReadBf16Matrix(prefix + "gate.weight", m.num_experts, hidden);
  w.bias =
      reader.Read(prefix + "gate.e_score_correction_bias", {m.num_experts});
  w.down = reader.ReadMatrix(prefix + "routed_expert_down_proj.weight", latent,
                             hidden);
  w.norm = reader.Read(prefix + "routed_expert_norm.weight", {latent});
  w.up = reader.ReadMatrix(prefix + "routed_expert_up_proj.weight", hidden,
                           latent);
  const int64_t width = int64_t{m.num_shared_experts} * m.moe_intermediate_size;
  w.shared = ReadMlp(prefix + "shared_experts.", hidden, width, reader);
  return w;
}

}  // namespace

WeightReader::WeightReader(const DeltafinWeightSource& source,
                           at::Device device, Storage storage)
    : source_(source), device_(device), storage_(storage) {}

at::Tensor WeightReader::ReadUncounted(const std::string& name,
                                       std::initializer_list<int64_t> shape) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  const int32_t code = source_.read_tensor(
      source_.context, name.c_str(), shape.begin(),
      static_cast<int64_t>(shape.size()), tensor.data_ptr<float>());
  if (code != 0) throw SpineError{code, "reading " + name};
  return tensor.to(device_);
}

at::Tensor WeightReader::Read(const std::string& name,
                              std::initializer_list<int64_t> shape) {
  const at::Tensor tensor = ReadUncounted(name, shape);
  bytes_ += tensor.numel() * int64_t{sizeof(float)};
  return tensor;
}

Matrix WeightReader::Counted(Matrix matrix) {
  bytes_ += matrix.bytes();
  return matrix;
}

Matrix WeightReader::ReadMatrix(const std::string& name, int64_t rows,
                                int64_t cols) {
  return Counted(Matrix(ReadUncounted(name, {rows, cols}), storage_));
}

Matrix WeightReader::ReadBf16Matrix(const std::string& name, int64_t rows,
                                    int64_t cols) {
  const Storage storage =
      storage_ == Storage::kF32 ? Storage::kF32 : Storage::kBf16;
  return Counted(Matrix(ReadUncounted(name, {rows, cols}), storage));
}

at::Tensor WeightReader::Narrow(const at::Tensor& values) {
  return (storage_ == Storage::kF32 ? values : values.to(at::kBFloat16))
      .contiguous();
}

LayerWeights ReadLayer(const DeltafinModel& model, int layer,
                       WeightReader& reader) {
  const std::string prefix = kModel + ("layers." + std::to_string(layer)) + ".";
  const int64_t hidden = model.hidden_size;
  LayerWeights w;
  w.input_norm = reader.Read(prefix + "input_layernorm.weight", {hidden});
  w.post_attention_norm =
      reader.Read(prefix + "post_attention_layernorm.weight", {hidden});
  w.attention_mix = ReadMix(reader, prefix + "self_attention_res", hidden);
  w.mlp_mix = ReadMix(reader, prefix + "mlp_res", hidden);
  if (model.is_mla[layer]) {
    w.mla = ReadMla(model, prefix + "self_attn.", reader);
  } else {
    w.kda = ReadKda(model, prefix + "self_attn.", reader);
  }
  if (layer < model.first_k_dense_replace) {
    w.dense = ReadMlp(prefix + "mlp.", hidden, model.intermediate_size, reader);
  } else {
    w.moe = ReadMoe(model, prefix + "block_sparse_moe.", reader);
  }
  return w;
}

HeadWeights ReadHead(const DeltafinModel& model, WeightReader& reader) {
  const std::string prefix = kModel;
  return {ReadMix(reader, prefix + "output_attn_res", model.hidden_size),
          reader.Read(prefix + "norm.weight", {model.hidden_size}),
          reader.ReadMatrix("language_model.lm_head.weight", model.vocab_size,
                            model.hidden_size)};
}

}  // namespace deltafin::torch_spine
