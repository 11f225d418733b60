#include "bench/repeated_store.h"

#include <cstring>

namespace deltafin::bench {

ModelSpec FullExperts() {
  ModelSpec spec;
  spec.num_hidden_layers = 93;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 896;
  spec.num_experts_per_token = 16;
  spec.routed_expert_hidden_size = 3584;
  spec.moe_intermediate_size = 3072;
  return spec;
}

RepeatedStore::RepeatedStore() : bytes_(shape_.slice_offset(1)) {
  // Codes of any value, scale bytes near 2^0: tile order keeps kinds of bytes
  // apart only in places, so bytes are drawn that are good as both.
  uint32_t state = 1;
  for (uint8_t& byte : bytes_) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(112 + (state >> 28));
  }
}

absl::StatusOr<uint64_t> RepeatedStore::Read(
    ExpertKey /*key*/, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int)> ready) {
  for (int i = 0; i < run.count; ++i) {
    std::memcpy(out[i], bytes_.data(), bytes_.size());
    ready(run.first + i);
  }
  return run.count * bytes_.size();
}

}  // namespace deltafin::bench
