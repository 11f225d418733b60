// kernels/cuda/spine_workspace.h
//
// What a CudaSpine keeps on the card between its launches. Private to
// kernels/cuda/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_experts.h"
#include "kernels/cuda/spine_card.h"
#include "kernels/cuda/spine_launches.h"

namespace deltafin::cuda {

// Launches of products whose sums are kept apart.
enum SpineProduct : int {
  kInProduct,  // of the attention's input
  kFirstGateProduct,
  kSecondGateProduct,
  kThirdGateProduct,
  kQueryProduct,  // q_b
  kOutProduct,    // o
  kRouteProduct,  // router, latent_down
  kGateUpProduct,
  kDownProduct,
  kLatentUpProduct,
  kHeadProduct,
  kNumSpineProducts
};

struct SpineWorkspace {
  static std::unique_ptr<SpineWorkspace> Create(int card,
                                                const CudaSpineShape& shape,
                                                const SpineTarget& target,
                                                std::string* why);

  std::unique_ptr<CudaMemory> memory;  // everything below lies in it

  float* prefix = nullptr;        // [8, H]
  std::vector<float*> snapshots;  // each [8, H]
  PreparedView input;             // H
  PreparedView attended;          // of the attention's output
  PreparedView q_low;             // q_lora_rank
  PreparedView activated;         // of the feed-forward
  PreparedView latent;            // of the routed sums
  float* attention = nullptr;     // [8, width]
  float* queries = nullptr;       // [8, heads, latent + rope]
  float* mla_parts = nullptr;
  float* mla_stats = nullptr;
  int64_t mla_parts_floats = 0;
  int64_t* sums = nullptr;  // [8, latent]
  float* logits = nullptr;  // [8, vocab]
  std::array<float*, kNumSpineProducts> partials = {};

  // What TakeRouted fetches, in this order, with room for 8 tokens.
  int32_t* not_finite = nullptr;
  int32_t* experts = nullptr;
  float* weights = nullptr;
  float* latents = nullptr;
};

}  // namespace deltafin::cuda
