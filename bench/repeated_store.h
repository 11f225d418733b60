// bench/repeated_store.h
//
// Every routed expert of Kimi K3's size, in the memory of one slice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/model_spec.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin::bench {

// Kimi K3's routed experts, and nothing else of it.
ModelSpec FullExperts();

// Every slice of every expert is the same valid bytes. Thread-safe.
class RepeatedStore : public ExpertStore {
 public:
  RepeatedStore();

  const ExpertShape& shape() const override { return shape_; }
  absl::StatusOr<uint64_t> Read(ExpertKey key, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override;

 private:
  const ExpertShape shape_ = FullExperts().expert_shape();
  std::vector<uint8_t> bytes_;
};

}  // namespace deltafin::bench
