// bench/layer_compute.h
//
// The expert kernel over the slices of a lease, as they come: what a node does
// with a layer, without its protocol.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/measurement.h"
#include "bench/record_drive.h"
#include "expert_node/storage/tiered_store.h"
#include "kernels/expert_kernel.h"

namespace deltafin::bench {

class LayerCompute {
 public:
  LayerCompute(int num_threads, int num_tokens);

  enum class Work { kOnlyWait, kCompute };
  // Waits for every slice of the lease, whose unit i is slice i % slices.
  void Run(SliceLease& lease, Work work);

 private:
  static constexpr int kLatent = kRecordShape.latent_size;

  void Compute(const uint8_t* bytes, int slice, int thread);

  const ExpertKernel& kernel_;
  const int num_threads_;
  const int num_tokens_;
  HugeBuffer prepared_;
  std::vector<float> weights_;
  HugeBuffer sums_;
  const size_t scratch_bytes_;
  HugeBuffer scratch_;
};

}  // namespace deltafin::bench
