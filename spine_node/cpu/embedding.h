// spine_node/cpu/embedding.h
//
// Token embeddings, read from the checkpoint by row. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/safetensors.h"

namespace deltafin {

class Embedding {
 public:
  // table: [V, H] bf16; its file outlives the object.
  Embedding(const TensorLocation& table, int hidden_size);

  // Rows of the ids as f32, out [ids, H]. Blocks on disk. REQUIRES: ids in
  // [0, V). Errors: DATA_LOSS.
  absl::Status Read(std::span<const int32_t> ids, float* out);

 private:
  TensorLocation table_;
  std::vector<uint16_t> row_;
};

}  // namespace deltafin
