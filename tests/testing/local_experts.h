// tests/testing/local_experts.h
//
// Routed experts straight from a checkpoint, in this thread: what the layer
// loop needs to run a spine in a test without expert nodes. Ends the program
// with a message on any error. Packed experts are kept, so use small models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/expert_key.h"
#include "common/base/model_spec.h"
#include "common/base/safetensors.h"
#include "kernels/kernel_registry.h"
#include "spine_node/spine_types.h"

namespace deltafin::testing {

class LocalExperts {
 public:
  // `kernel` outlives the object.
  LocalExperts(const std::string& model_dir, const KernelTarget& kernel);

  // [T, L] fixed-point sums of the layer's routed experts. OUT_OF_RANGE where
  // the kernel reports it.
  absl::StatusOr<std::vector<int64_t>> Run(int layer,
                                           const RoutedTokens& tokens);

 private:
  const AlignedBuffer& Record(ExpertKey key);

  ModelSpec spec_;
  std::unique_ptr<Checkpoint> checkpoint_;
  const KernelTarget& kernel_;
  absl::flat_hash_map<ExpertKey, AlignedBuffer> records_;
};

}  // namespace deltafin::testing
