#include "spine_node/torch_weight_source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// bf16 to f32 is a shift of the bits.
void WidenBf16(const uint16_t* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = uint32_t{in[i]} << 16;
    std::memcpy(&out[i], &bits, sizeof(bits));
  }
}

std::span<uint8_t> BytesOf(float* out, int64_t count) {
  return {reinterpret_cast<uint8_t*>(out),
          static_cast<size_t>(count) * sizeof(float)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchWeightSource>> TorchWeightSource::Open(
    const std::string& model_dir, const ModelSpec& spec) {
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(model_dir));
  return std::unique_ptr<TorchWeightSource>(
      new TorchWeightSource(std::move(checkpoint), spec));
}

TorchWeightSource::TorchWeightSource(std::unique_ptr<Checkpoint> checkpoint,
                                     const ModelSpec& spec)
    : checkpoint_(std::move(checkpoint)),
      embedding_(GlobalTensor(spec, "embed_tokens.weight")),
      vocab_size_(spec.vocab_size),
      hidden_size_(spec.hidden_size) {
  for (TensorSpec& t : GlobalTensors(spec)) tensors_.emplace(t.name, t);
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    for (TensorSpec& t : LayerTensors(spec, layer)) tensors_.emplace(t.name, t);
  }
  border_.context = this;
  border_.read_tensor = [](void* context, const char* name,
                           const int64_t* shape, int64_t num_dims, float* out) {
    auto* self = static_cast<TorchWeightSource*>(context);
    return self->Record(self->ReadTensor(
        name, std::span(shape, static_cast<size_t>(num_dims)), out));
  };
  border_.read_embedding = [](void* context, const int32_t* ids,
                              int64_t num_ids, float* out) {
    auto* self = static_cast<TorchWeightSource*>(context);
    return self->Record(self->ReadEmbedding(ids, num_ids, out));
  };
}

absl::Status TorchWeightSource::ReadTensor(const std::string& name,
                                           std::span<const int64_t> shape,
                                           float* out) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end() || !std::ranges::equal(it->second.shape, shape)) {
    return absl::InternalError(
        fmt::format("{}: the torch spine asked for another shape", name));
  }
  const TensorSpec& tensor = it->second;
  if (tensor.dtype == DType::kF32) {
    return checkpoint_->ReadTensor(
        name, tensor.dtype, shape,
        BytesOf(out, static_cast<int64_t>(tensor.bytes() / sizeof(float))));
  }
  std::vector<uint16_t> bf16(tensor.bytes() / sizeof(uint16_t));
  RETURN_IF_ERROR(checkpoint_->ReadTensor(
      name, tensor.dtype, shape,
      {reinterpret_cast<uint8_t*>(bf16.data()), tensor.bytes()}));
  WidenBf16(bf16.data(), static_cast<int64_t>(bf16.size()), out);
  return absl::OkStatus();
}

absl::Status TorchWeightSource::ReadEmbedding(const int32_t* ids,
                                              int64_t num_ids, float* out) {
  ASSIGN_OR_RETURN(
      const TensorLocation rows,
      checkpoint_->Find(embedding_.name, embedding_.dtype, embedding_.shape));
  std::vector<uint16_t> row(static_cast<size_t>(hidden_size_));
  const uint64_t row_bytes = row.size() * sizeof(uint16_t);
  for (int64_t i = 0; i < num_ids; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size_) {
      return absl::InvalidArgumentError(fmt::format(
          "token id {} is outside the vocabulary of {}", ids[i], vocab_size_));
    }
    RETURN_IF_ERROR(
        rows.file->Read(*rows.info, static_cast<uint64_t>(ids[i]) * row_bytes,
                        {reinterpret_cast<uint8_t*>(row.data()), row_bytes}));
    WidenBf16(row.data(), hidden_size_, out + i * hidden_size_);
  }
  return absl::OkStatus();
}

int32_t TorchWeightSource::Record(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  return static_cast<int32_t>(status.code());
}

absl::Status TorchWeightSource::TakeStatus() {
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace deltafin
