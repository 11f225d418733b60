// tests/unit/kernels/cuda/cuda_layer_case.h
//
// A layer of routed experts with its tokens: what a kernel of the processor and
// a card make of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_experts.h"
#include "kernels/kernel_registry.h"
#include "tests/unit/kernels/expert_cases.h"

namespace deltafin {

struct CudaLayerCase {
  ExpertShape shape;
  SituParams situ;
  int top_k = 0;
  int num_tokens = 0;
  std::vector<ExpertCase> experts;      // their tensors alone
  std::vector<SliceRun> runs;           // [experts] slices that are there
  std::vector<float> x;                 // [T, L]
  std::vector<CudaExpertRoute> routes;  // [T, top_k]
  bool alone = false;  // each token by itself, where the card can

  int num_experts() const { return static_cast<int>(experts.size()); }
};

struct CudaLayerOutcome {
  CudaExpertResult result;
  std::vector<int64_t> sums;  // [T, L]; undefined after an error
};

// All slices of num_experts experts; each token takes top_k different ones.
CudaLayerCase MakeLayerCase(ExpertKind kind, ExpertShape shape, int num_experts,
                            int top_k, int num_tokens, XorShift64* random);

CudaLayerOutcome RunOnProcessor(const KernelTarget& target,
                                const CudaLayerCase& c);

// A layer's experts in the memory of card 0. Failures of CUDA end the test.
class CardLayer {
 public:
  // max_tokens: of the calls to come; at least c.num_tokens.
  explicit CardLayer(const CudaLayerCase& c, int max_tokens = 0);

  CudaLayerOutcome Run(const CudaLayerCase& c);
  CudaExperts& experts() { return *experts_; }

 private:
  std::unique_ptr<CudaMemory> records_;
  std::unique_ptr<CudaExperts> experts_;
};

}  // namespace deltafin
