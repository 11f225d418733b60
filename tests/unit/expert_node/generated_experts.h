// tests/unit/expert_node/generated_experts.h
//
// Experts made up from their names: the same bytes for the store of a test and
// for the definition it is compared with.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "common/base/model_spec.h"
#include "expert_node/layer_work.h"
#include "expert_node/storage/expert_store.h"
#include "kernels/expert_tiles.h"

namespace deltafin {

// A model of 5 layers (0 dense), 8 experts, top 4, whatever width.
ModelSpec SmallSpec(const ExpertShape& shape);

// The six tensors of an expert.
struct GeneratedExpert {
  GeneratedExpert(const ExpertShape& shape, ExpertKey key);
  ReleasedExpert released() const;
  // Slice in tile order.
  std::vector<uint8_t> Packed(int slice) const;

  ExpertShape shape;
  std::vector<uint8_t> tensors[6];
};

// Serves generated experts. Reads can be held back and made to fail.
class GeneratedStore : public ExpertStore {
 public:
  explicit GeneratedStore(const ExpertShape& shape) : shape_(shape) {}

  const ExpertShape& shape() const override { return shape_; }
  absl::StatusOr<uint64_t> Read(ExpertKey key, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override;

  bool IsNear(ExpertKey key, SliceRun /*run*/) const override {
    return key != far_;
  }
  // Before any read.
  void set_far(ExpertKey key) { far_ = key; }

  int num_reads() const { return num_reads_; }
  int64_t num_slices_read() const { return num_slices_read_; }

  // Reads wait until `Open`. Before any read.
  void Hold();
  void Open();
  // Blocks until `count` reads have begun.
  void WaitForReads(int count);
  // Reads for which this is not OK fail with it. Before any read.
  void set_failure(std::function<absl::Status(ExpertKey)> failure) {
    failure_ = std::move(failure);
  }

 private:
  const ExpertShape shape_;
  ExpertKey far_{-1, -1};
  std::function<absl::Status(ExpertKey)> failure_;
  std::atomic<int> num_reads_{0};
  std::atomic<int64_t> num_slices_read_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

// Layer work with ordinary activations: `num_tokens` tokens, each with
// spec.num_experts_per_token different experts and all slices of each.
LayerWork GeneratedWork(const ModelSpec& spec, int layer, int num_tokens,
                        uint64_t seed);

// Sums [rows, L] of tokens with work, by the definition of docs/numerics.md
// section 8. REQUIRES: no error.
std::vector<int64_t> DefinedSums(const ModelSpec& spec, const LayerWork& work);

// The request that CheckLayerRequest turns into `work`.
v1::LayerRequest RequestOf(const LayerWork& work);

}  // namespace deltafin
