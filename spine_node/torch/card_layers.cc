#include "spine_node/torch/card_layers.h"

#include <algorithm>

namespace deltafin::torch_spine {
namespace {

CudaSpineShape ShapeOf(const DeltafinModel& m) {
  CudaSpineShape s;
  s.hidden_size = m.hidden_size;
  s.num_snapshots =
      (m.num_hidden_layers + m.attn_res_block_size - 1) / m.attn_res_block_size;
  s.rms_norm_eps = m.rms_norm_eps;
  s.low_rank_norm_eps = m.low_rank_norm_eps;
  s.l2_norm_eps = m.l2_norm_eps;
  s.kda_num_heads = m.kda_num_heads;
  s.kda_head_dim = m.kda_head_dim;
  s.gate_lower_bound = m.gate_lower_bound;
  s.num_attention_heads = m.num_attention_heads;
  s.q_lora_rank = m.q_lora_rank;
  s.kv_lora_rank = m.kv_lora_rank;
  s.qk_nope_head_dim = m.qk_nope_head_dim;
  s.qk_rope_head_dim = m.qk_rope_head_dim;
  s.v_head_dim = m.v_head_dim;
  s.dense_width = m.intermediate_size;
  s.shared_width = m.num_shared_experts * m.moe_intermediate_size;
  s.num_experts = m.num_experts;
  s.top_k = m.num_experts_per_token;
  s.latent_size = m.latent_size;
  s.routed_scaling_factor = m.routed_scaling_factor;
  s.situ_beta = m.situ_beta;
  s.situ_linear_beta = m.situ_linear_beta;
  s.vocab_size = m.vocab_size;
  return s;
}

const float* Floats(const at::Tensor& t) { return t.data_ptr<float>(); }

const uint16_t* Bf16(const at::Tensor& t) {
  return static_cast<const uint16_t*>(t.data_ptr());
}

CudaMatrix View(const Matrix& m) {
  return {m.tiles().data_ptr(),
          m.row_scale().defined() ? Floats(m.row_scale()) : nullptr,
          static_cast<int>(m.rows()), static_cast<int>(m.cols())};
}

CudaMlpWeights View(const MlpWeights& w) {
  return {View(w.gate), View(w.up), View(w.down)};
}

CudaKdaWeights View(const KdaWeights& w) {
  return {View(w.q),
          View(w.k),
          View(w.v),
          View(w.g),
          View(w.f_a),
          View(w.b),
          View(w.o),
          Bf16(w.f_b),
          {Floats(w.q_conv), Floats(w.k_conv), Floats(w.v_conv)},
          Floats(w.decay_rate),
          Floats(w.dt_bias),
          Floats(w.o_norm)};
}

CudaMlaWeights View(const MlaWeights& w) {
  return {View(w.q_a),         View(w.q_b),    View(w.kv_a),
          View(w.g),           View(w.o),      Floats(w.q_a_norm),
          Floats(w.kv_a_norm), Bf16(w.key_up), Bf16(w.value_up)};
}

CudaMoeWeights View(const MoeWeights& w) {
  return {View(w.router), View(w.down),   View(w.up),
          Floats(w.bias), Floats(w.norm), View(w.shared)};
}

CudaSpineLayer View(const LayerWeights& w, bool is_mla, bool is_moe) {
  CudaSpineLayer layer;
  layer.is_mla = is_mla;
  layer.input_norm = Floats(w.input_norm);
  layer.post_attention_norm = Floats(w.post_attention_norm);
  layer.attention_mix = Floats(w.attention_mix);
  layer.mlp_mix = Floats(w.mlp_mix);
  if (is_mla) {
    layer.mla = View(w.mla);
  } else {
    layer.kda = View(w.kda);
  }
  if (is_moe) {
    layer.moe = View(w.moe);
  } else {
    layer.dense = View(w.dense);
  }
  return layer;
}

}  // namespace

std::unique_ptr<CardLayers> CardLayers::Create(
    const DeltafinModel& model, at::Device device,
    const std::vector<LayerWeights>& layers, const HeadWeights& head,
    std::string* why) {
  if (device.type() != at::kCUDA) {
    *why = "the spine's own kernels are for CUDA devices";
    return nullptr;
  }
  const CudaSpineShape shape = ShapeOf(model);
  if (!CudaSpine::Supports(shape, why)) return nullptr;
  auto card = std::unique_ptr<CardLayers>(new CardLayers(model, layers, head));
  const int index = device.has_index() ? device.index() : 0;
  card->spine_ = CudaSpine::Create(index, shape, nullptr, why);
  return card->spine_ == nullptr ? nullptr : std::move(card);
}

CardLayers::CardLayers(const DeltafinModel& model,
                       const std::vector<LayerWeights>& layers,
                       const HeadWeights& head)
    : model_(model) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool is_moe = static_cast<int>(i) >= model.first_k_dense_replace;
    layers_.push_back(View(layers[i], model.is_mla[i] != 0, is_moe));
  }
  if (!head.norm.defined()) return;
  head_ = {Floats(head.output_mix), Floats(head.norm), View(head.lm_head)};
}

void CardLayers::Require(bool done) const {
  if (!done) throw SpineError{kInternal, why_};
}

void CardLayers::Begin(const float* rows, int64_t num_tokens) {
  num_tokens_ = num_tokens;
  Require(spine_->Begin(rows, static_cast<int>(num_tokens), &why_));
}

void CardLayers::Attend(int layer, const std::vector<Part>& parts) {
  std::vector<CudaSequence> sequences;
  for (const Part& part : parts) {
    CudaSequence& s = sequences.emplace_back();
    s.count = static_cast<int>(part.count);
    if (model_.is_mla[layer]) {
      MlaState& state = part.sequence->mla(layer);
      state.Reserve(part.count);
      s.mla_rows = state.rows.data_ptr<float>();
      s.mla_position = state.length;
      state.length += part.count;
    } else {
      KdaState& state = part.sequence->kda(layer);
      state.Own();
      s.kda_matrix = state.matrix.data_ptr<float>();
      s.kda_history[0] = state.conv_q.data_ptr<float>();
      s.kda_history[1] = state.conv_k.data_ptr<float>();
      s.kda_history[2] = state.conv_v.data_ptr<float>();
    }
  }
  const bool starts_block = layer % model_.attn_res_block_size == 0;
  Require(spine_->Attend(layers_[layer], starts_block, sequences.data(),
                         static_cast<int>(sequences.size()), &why_));
}

void CardLayers::DenseMlp(int layer) {
  Require(spine_->DenseMlp(layers_[layer], &why_));
}

DeltafinRouted CardLayers::Route(int layer) {
  CudaRouted routed;
  bool finite = false;
  Require(spine_->Route(layers_[layer], &why_) &&
          spine_->TakeRouted(&routed, &finite, &why_));
  if (!finite) {
    throw SpineError{kOutOfRange, "layer " + std::to_string(layer) +
                                      " router: inf or NaN in its input or "
                                      "output"};
  }
  return {static_cast<int32_t>(num_tokens_), routed.experts, routed.weights,
          routed.latents};
}

void CardLayers::SharedExperts(int layer) {
  Require(spine_->SharedExperts(layers_[layer], &why_));
}

void CardLayers::AddRoutedExperts(int layer, const int64_t* sums) {
  Require(spine_->AddRoutedExperts(layers_[layer], sums, &why_));
}

at::Tensor CardLayers::Fetch(const float* rows, int64_t width) {
  at::Tensor host = at::empty({num_tokens_, width}, at::kFloat);
  Require(spine_->Fetch(rows, static_cast<size_t>(host.numel()),
                        host.data_ptr<float>(), &why_));
  return host;
}

at::Tensor CardLayers::Logits() {
  const float* logits = nullptr;
  Require(spine_->Logits(head_, &logits, &why_));
  return Fetch(logits, model_.vocab_size);
}

at::Tensor CardLayers::Prefix() {
  const float* rows = nullptr;
  Require(spine_->Prefix(&rows, &why_));
  return Fetch(rows, model_.hidden_size);
}

std::vector<at::Tensor> CardLayers::Snapshots() {
  std::vector<at::Tensor> snapshots;
  for (int i = 0; i < spine_->num_snapshots(); ++i) {
    snapshots.push_back(Fetch(spine_->snapshot(i), model_.hidden_size));
  }
  return snapshots;
}

}  // namespace deltafin::torch_spine
