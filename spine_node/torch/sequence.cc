#include "spine_node/torch/sequence.h"

#include <algorithm>

namespace deltafin::torch_spine {
namespace {

constexpr int64_t kConvHistory = 3;
constexpr int64_t kFirstCapacity = 256;

int64_t BytesOf(const at::Tensor& t) {
  return t.defined() ? t.numel() * int64_t{sizeof(float)} : 0;
}

int64_t BytesOf(const std::vector<KdaState>& states) {
  int64_t bytes = 0;
  for (const KdaState& s : states) {
    bytes += BytesOf(s.matrix) + BytesOf(s.conv_q) + BytesOf(s.conv_k) +
             BytesOf(s.conv_v);
  }
  return bytes;
}

}  // namespace

void KdaState::Own() {
  for (at::Tensor* t : {&matrix, &conv_q, &conv_k, &conv_v}) {
    if (t->use_count() > 1 || !t->is_contiguous()) {
      *t = t->clone(at::MemoryFormat::Contiguous);
    }
  }
}

void MlaState::Reserve(int64_t count) {
  const int64_t needed = length + count;
  if (needed <= rows.size(0)) return;
  const int64_t capacity = std::max({needed, 2 * rows.size(0), kFirstCapacity});
  at::Tensor grown = at::empty({capacity, rows.size(1)}, rows.options());
  grown.narrow(0, 0, length).copy_(rows.narrow(0, 0, length));
  rows = grown;
}

at::Tensor MlaState::Append(const at::Tensor& added) {
  Reserve(added.size(0));
  rows.narrow(0, length, added.size(0)).copy_(added);
  length += added.size(0);
  return rows.narrow(0, 0, length);
}

Sequence::Sequence(const DeltafinModel& model, int num_layers,
                   at::Device device)
    : kda_(num_layers), mla_(num_layers) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const int64_t heads = model.kda_num_heads;
  const int64_t dim = model.kda_head_dim;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (model.is_mla[layer]) {
      const int64_t width = model.kv_lora_rank + model.qk_rope_head_dim;
      mla_[layer].rows = at::empty({0, width}, options);
      continue;
    }
    const at::Tensor history = at::zeros({kConvHistory, heads * dim}, options);
    kda_[layer] = {at::zeros({heads, dim, dim}, options), history, history,
                   history};
  }
  initial_ = kda_;
}

int64_t Sequence::bytes() const {
  int64_t bytes = BytesOf(kda_);
  for (const MlaState& s : mla_) bytes += BytesOf(s.rows);
  for (const Generation& g : generations_) bytes += BytesOf(g.kda);
  return bytes;
}

void Sequence::RetainGeneration(int64_t max_bytes) {
  const int64_t one = std::max<int64_t>(BytesOf(kda_), 1);
  generations_.push_back({num_tokens_, kda_});
  while (static_cast<int64_t>(generations_.size()) * one > max_bytes &&
         !generations_.empty()) {
    generations_.pop_front();
  }
}

int64_t Sequence::TruncateTo(int64_t num_tokens) {
  while (!generations_.empty() && generations_.back().num_tokens > num_tokens) {
    generations_.pop_back();
  }
  num_tokens_ = generations_.empty() ? 0 : generations_.back().num_tokens;
  kda_ = generations_.empty() ? initial_ : generations_.back().kda;
  for (MlaState& s : mla_) s.length = std::min(s.length, num_tokens_);
  return num_tokens_;
}

Sequence Sequence::Clone() const {
  Sequence copy = *this;
  for (MlaState& s : copy.mla_) {
    if (s.rows.defined()) s.rows = s.rows.clone();
  }
  return copy;
}

}  // namespace deltafin::torch_spine
