// tests/fuzz/expert_node/zero_store.h
//
// Experts whose every byte is zero, at no cost.
#pragma once

#include <algorithm>

#include "expert_node/storage/expert_store.h"

namespace deltafin {

class ZeroStore : public ExpertStore {
 public:
  explicit ZeroStore(const ExpertShape& shape) : shape_(shape) {}

  const ExpertShape& shape() const override { return shape_; }
  absl::StatusOr<uint64_t> Read(ExpertKey /*key*/, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override {
    uint64_t bytes = 0;
    for (int i = 0; i < run.count; ++i) {
      const int slice = run.first + i;
      const size_t length =
          shape_.slice_offset(slice + 1) - shape_.slice_offset(slice);
      std::fill_n(out[i], length, uint8_t{0});
      bytes += length;
      ready(slice);
    }
    return bytes;
  }

 private:
  const ExpertShape shape_;
};

}  // namespace deltafin
