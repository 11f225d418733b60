// spine_node/torch_weight_source.h
//
// Hands checkpoint tensors to the libtorch spine through its C border, widened
// to f32. The module opens no file itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "common/base/safetensors.h"
#include "common/base/tensor_names.h"
#include "spine_node/torch_abi.h"

namespace deltafin {

class TorchWeightSource {
 public:
  static absl::StatusOr<std::unique_ptr<TorchWeightSource>> Open(
      const std::string& model_dir, const ModelSpec& spec);

  // Valid as long as this object.
  const DeltafinWeightSource* border() const { return &border_; }
  // The first failure since the last call; OK if there was none.
  absl::Status TakeStatus();

 private:
  TorchWeightSource(std::unique_ptr<Checkpoint> checkpoint,
                    const ModelSpec& spec);

  absl::Status ReadTensor(const std::string& name,
                          std::span<const int64_t> shape, float* out);
  absl::Status ReadEmbedding(const int32_t* ids, int64_t num_ids, float* out);
  int32_t Record(const absl::Status& status);

  std::unique_ptr<Checkpoint> checkpoint_;
  absl::flat_hash_map<std::string, TensorSpec> tensors_;
  const TensorSpec embedding_;
  int64_t vocab_size_;
  int64_t hidden_size_;
  absl::Status status_;
  DeltafinWeightSource border_;
};

}  // namespace deltafin
