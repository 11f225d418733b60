#include "spine_node/torch/torch_spine.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <string>

#include "spine_node/torch/operators.h"

namespace deltafin::torch_spine {
namespace {

constexpr float kFixedPointStep = 0x1p-40f;
constexpr int32_t kLogitsNone = 0;
constexpr int32_t kLogitsLast = 1;

void RequireFinite(const at::Tensor& t, int layer, const char* what) {
  if (at::isfinite(t).all().item<bool>()) return;
  throw SpineError{kOutOfRange, "layer " + std::to_string(layer) + " " + what +
                                    ": inf or NaN in the output"};
}

// Every product in full f32, whatever the device would prefer.
void ForbidReducedPrecision(int num_threads) {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  at::set_num_threads(num_threads);
}

// "cuda" is the first card: to libtorch it is whichever is current when memory
// is taken, and computing experts on another card makes that one current.
// Throws FAILED_PRECONDITION, with what to do, where libtorch sees no such
// device.
at::Device PresentDevice(const std::string& name) {
  const at::Device device(name == "cuda" ? "cuda:0" : name);
  const bool missing =
      (device.type() == at::kCUDA && !at::globalContext().hasCUDA()) ||
      (device.type() == at::kMPS && !at::globalContext().hasMPS());
  if (!missing) return device;
  throw SpineError{kFailedPrecondition,
                   "libtorch sees no device '" + name +
                       "' here; check its driver and that this libtorch was "
                       "built for it, or use --device cpu"};
}

Storage StorageOf(const std::string& name) {
  if (name == "f32") return Storage::kF32;
  if (name == "bf16") return Storage::kBf16;
  if (name == "int8") return Storage::kInt8;
  throw SpineError{kInvalidArgument, "unknown storage '" + name + "'"};
}

}  // namespace

TorchSpine::TorchSpine(const DeltafinModel& model,
                       const DeltafinTorchOptions& options,
                       const DeltafinWeightSource& source)
    : is_mla_(model.is_mla, model.is_mla + model.num_hidden_layers),
      model_(model),
      source_(source),
      device_(PresentDevice(options.device)),
      generation_bytes_(options.generation_bytes) {
  model_.is_mla = is_mla_.data();
  ForbidReducedPrecision(options.num_threads);
  const Storage storage = StorageOf(options.storage);
  WeightReader reader(source, device_, storage);
  for (int layer = 0; layer < options.num_layers; ++layer) {
    layers_.push_back(ReadLayer(model_, layer, reader));
  }
  if (options.has_head) head_ = ReadHead(model_, reader);
  weight_bytes_ = reader.bytes();
  if (storage == Storage::kF32) return;
  std::string why;  // libtorch can do the same
  card_ = CardLayers::Create(model_, device_, layers_, head_, &why);
}

void TorchSpine::Embed(const DeltafinSlice* slices, int64_t num_slices) {
  AbandonStep();
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < num_slices; ++i) {
    const DeltafinSlice& s = slices[i];
    slices_.push_back({static_cast<Sequence*>(s.state),
                       static_cast<int64_t>(ids.size()), s.num_ids, s.logits});
    ids.insert(ids.end(), s.ids, s.ids + s.num_ids);
  }
  const int64_t tokens = static_cast<int64_t>(ids.size());
  at::Tensor rows = at::empty({tokens, model_.hidden_size}, at::kFloat);
  const int32_t code = source_.read_embedding(source_.context, ids.data(),
                                              tokens, rows.data_ptr<float>());
  if (code != 0) throw SpineError{code, "reading embedding rows"};
  card_step_ = card_ != nullptr && tokens <= CardLayers::kMaxTokens;
  if (card_step_) {
    card_->Begin(rows.data_ptr<float>(), tokens);
  } else {
    prefix_ = rows.to(device_);
  }
}

void TorchSpine::Attend(int layer) {
  const LayerWeights& w = layers_[layer];
  if (card_step_) {
    std::vector<CardLayers::Part> parts;
    for (const StepSlice& s : slices_) parts.push_back({s.sequence, s.count});
    card_->Attend(layer, parts);
    return;
  }
  at::Tensor hidden = blocks_.empty()
                          ? prefix_
                          : AttentionResidual(blocks_, prefix_, w.attention_mix,
                                              model_.rms_norm_eps);
  if (layer % model_.attn_res_block_size == 0) {
    blocks_.push_back(prefix_);
    prefix_ = at::Tensor();
  }
  const at::Tensor x = RmsNorm(hidden, w.input_norm, model_.rms_norm_eps);
  std::vector<at::Tensor> parts;
  for (const StepSlice& s : slices_) {
    const at::Tensor rows = x.narrow(0, s.begin, s.count);
    parts.push_back(is_mla_[layer] ? Mla(w.mla, rows, s.sequence->mla(layer))
                                   : Kda(w.kda, rows, s.sequence->kda(layer)));
  }
  AddToPrefix(at::cat(parts, 0), layer, "attention");
}

at::Tensor TorchSpine::Kda(const KdaWeights& w, const at::Tensor& x,
                           KdaState& state) {
  const int64_t tokens = x.size(0);
  const int64_t heads = model_.kda_num_heads;
  const int64_t dim = model_.kda_head_dim;
  const auto by_head = [&](const at::Tensor& t) {
    return t.reshape({tokens, heads, dim});
  };
  KdaInputs in;
  in.q = by_head(ShortConv(Linear(x, w.q), w.q_conv, state.conv_q));
  in.k = by_head(ShortConv(Linear(x, w.k), w.k_conv, state.conv_k));
  in.v = by_head(ShortConv(Linear(x, w.v), w.v_conv, state.conv_v));
  in.q = L2Norm(in.q, model_.l2_norm_eps) / std::sqrt(double(dim));
  in.k = L2Norm(in.k, model_.l2_norm_eps);
  const at::Tensor raw =
      by_head(at::matmul(Linear(x, w.f_a), w.f_b.to(at::kFloat).t()));
  in.log_decay = (w.decay_rate.unsqueeze(-1) * (raw + w.dt_bias)).sigmoid() *
                 model_.gate_lower_bound;
  in.beta = Linear(x, w.b).sigmoid();
  const at::Tensor out = KdaChunked(in, state.matrix);
  const at::Tensor gated = RmsNorm(out, w.o_norm, model_.rms_norm_eps) *
                           by_head(Linear(x, w.g)).sigmoid();
  return Linear(gated.reshape({tokens, heads * dim}), w.o);
}

at::Tensor TorchSpine::Mla(const MlaWeights& w, const at::Tensor& x,
                           MlaState& state) {
  const int64_t tokens = x.size(0);
  const int64_t heads = model_.num_attention_heads;
  const int64_t nope = model_.qk_nope_head_dim;
  const int64_t rope = model_.qk_rope_head_dim;
  const int64_t rank = model_.kv_lora_rank;
  const at::Tensor low =
      RmsNorm(Linear(x, w.q_a), w.q_a_norm, model_.low_rank_norm_eps);
  const at::Tensor q = Linear(low, w.q_b).reshape({tokens, heads, nope + rope});
  const at::Tensor kv = Linear(x, w.kv_a);
  const at::Tensor latent =
      RmsNorm(kv.narrow(1, 0, rank), w.kv_a_norm, model_.low_rank_norm_eps);
  const at::Tensor cache =
      state.Append(at::cat({latent, kv.narrow(1, rank, rope)}, 1));
  const at::Tensor absorbed = at::einsum(
      "thd,hdl->thl", {q.narrow(2, 0, nope), w.key_up.to(at::kFloat)});
  const at::Tensor queries = at::cat({absorbed, q.narrow(2, nope, rope)}, 2);
  const at::Tensor mixed = LatentAttention(
      queries, cache, rank, 1.0 / std::sqrt(double(nope + rope)));
  const at::Tensor out =
      at::einsum("thl,hdl->thd", {mixed, w.value_up.to(at::kFloat)})
          .reshape({tokens, heads * model_.v_head_dim});
  return Linear(out * Linear(x, w.g).sigmoid(), w.o);
}

at::Tensor TorchSpine::Mlp(const MlpWeights& w, const at::Tensor& x) const {
  return Linear(Situ(Linear(x, w.gate), Linear(x, w.up), model_.situ_beta,
                     model_.situ_linear_beta),
                w.down);
}

at::Tensor TorchSpine::MlpInput(const LayerWeights& w) {
  const at::Tensor hidden =
      AttentionResidual(blocks_, prefix_, w.mlp_mix, model_.rms_norm_eps);
  return RmsNorm(hidden, w.post_attention_norm, model_.rms_norm_eps);
}

void TorchSpine::DenseMlp(int layer) {
  const LayerWeights& w = layers_[layer];
  if (card_step_) return card_->DenseMlp(layer);
  AddToPrefix(Mlp(w.dense, MlpInput(w)), layer, "dense mlp");
}

DeltafinRouted TorchSpine::Route(int layer) {
  const LayerWeights& w = layers_[layer];
  if (card_step_) return card_->Route(layer);
  mlp_input_ = MlpInput(w);
  const at::Tensor scores = Linear(mlp_input_, w.moe.router).sigmoid();
  RequireFinite(scores, layer, "router");
  // A stable descending sort prefers the lower id on ties.
  const at::Tensor order = std::get<1>(
      at::sort(scores + w.moe.bias, /*stable=*/true, -1, /*descending=*/true));
  const at::Tensor ids = std::get<0>(
      at::sort(order.narrow(1, 0, model_.num_experts_per_token), -1));
  const at::Tensor chosen = scores.gather(1, ids);
  weights_ = (chosen / (chosen.sum(-1, /*keepdim=*/true) + 1e-20) *
              model_.routed_scaling_factor)
                 .to(at::kCPU)
                 .contiguous();
  experts_ = ids.to(at::kInt).to(at::kCPU).contiguous();
  latent_ = Linear(mlp_input_, w.moe.down).to(at::kCPU).contiguous();
  RequireFinite(latent_, layer, "routed_expert_down_proj");
  return {static_cast<int32_t>(latent_.size(0)), experts_.data_ptr<int32_t>(),
          weights_.data_ptr<float>(), latent_.data_ptr<float>()};
}

void TorchSpine::SharedExperts(int layer) {
  if (card_step_) return card_->SharedExperts(layer);
  shared_ = Mlp(layers_[layer].moe.shared, mlp_input_);
}

void TorchSpine::AddRoutedExperts(int layer, const int64_t* sums) {
  if (card_step_) return card_->AddRoutedExperts(layer, sums);
  const MoeWeights& w = layers_[layer].moe;
  const at::Tensor fixed =
      at::from_blob(const_cast<int64_t*>(sums),
                    {mlp_input_.size(0), model_.latent_size}, at::kLong);
  const at::Tensor y = fixed.to(at::kFloat).mul(kFixedPointStep).to(device_);
  const at::Tensor up = Linear(RmsNorm(y, w.norm, model_.rms_norm_eps), w.up);
  AddToPrefix(up + shared_, layer, "experts");
}

void TorchSpine::AddToPrefix(const at::Tensor& out, int layer,
                             const char* what) {
  RequireFinite(out, layer, what);
  prefix_ = prefix_.defined() ? prefix_ + out : out;
}

at::Tensor TorchSpine::WantedRows(const at::Tensor& hidden) const {
  std::vector<at::Tensor> rows;
  for (const StepSlice& s : slices_) {
    if (s.logits == kLogitsNone) continue;
    const int64_t count = s.logits == kLogitsLast ? 1 : s.count;
    rows.push_back(hidden.narrow(0, s.begin + s.count - count, count));
  }
  return rows.empty() ? hidden.narrow(0, 0, 0) : at::cat(rows, 0);
}

at::Tensor TorchSpine::WantedLogits() {
  if (card_step_) return WantedRows(card_->Logits());
  const at::Tensor hidden = AttentionResidual(
      blocks_, prefix_, head_.output_mix, model_.rms_norm_eps);
  const at::Tensor rows =
      RmsNorm(WantedRows(hidden), head_.norm, model_.rms_norm_eps);
  return Linear(rows, head_.lm_head);
}

const at::Tensor& TorchSpine::Logits() {
  const at::Tensor logits = WantedLogits();
  RequireFinite(logits, model_.num_hidden_layers, "lm_head");
  EndStep();
  logits_ = logits.to(at::kCPU).contiguous();
  return logits_;
}

DeltafinRows TorchSpine::Rows() {
  rows_.clear();
  if (card_step_) {
    rows_.push_back(card_->Prefix());
    for (const at::Tensor& t : card_->Snapshots()) rows_.push_back(t);
  } else {
    rows_.push_back(prefix_.to(at::kCPU).contiguous());
    for (const at::Tensor& t : blocks_) {
      rows_.push_back(t.to(at::kCPU).contiguous());
    }
  }
  snapshot_rows_.clear();
  for (size_t i = 1; i < rows_.size(); ++i) {
    snapshot_rows_.push_back(rows_[i].data_ptr<float>());
  }
  return {rows_[0].data_ptr<float>(), snapshot_rows_.data(),
          static_cast<int32_t>(snapshot_rows_.size())};
}

void TorchSpine::EndStep() {
  for (const StepSlice& s : slices_) s.sequence->Advance(s.count);
  AbandonStep();
}

void TorchSpine::AbandonStep() {
  card_step_ = false;
  slices_.clear();
  blocks_.clear();
  prefix_ = mlp_input_ = shared_ = at::Tensor();
}

}  // namespace deltafin::torch_spine
