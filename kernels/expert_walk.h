// kernels/expert_walk.h
//
// The walk over the slices of an expert (docs/numerics.md section 8), written
// once over the few operations that an instruction set provides: gate rows, up
// rows, SiTU, integer limbs of the result, then blocks of down rows, each added
// to the fixed-point sums. Private to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"

namespace deltafin {

// What one instruction set provides. Prepared activations are opaque words:
// tokens 0, 1, 2, ... go in blocks of two, the last of an odd number alone, and
// a block of B tokens takes B * group_words words for each group of 32 columns.
struct ExpertOperations {
  int group_words;
  // Quantises x [cols] as token `lane` of a block of `block_tokens`. False:
  // inf or NaN inside.
  bool (*quantize)(const float* x, int cols, int block_tokens, int lane,
                   int32_t* out);
  // One row block in tile order against T tokens: y[t * 256 + r] (section 2).
  // num_rows in 1..256, cols a multiple of 32, y 64-byte aligned.
  void (*multiply_block)(const uint8_t* tiles, int num_rows, int cols,
                         int num_tokens, const int32_t* prepared, float* y);
  bool (*all_finite)(const float* y, int n);
  // sums[i] += rhe(weight * y[i] * 2^40). False: some product is not below
  // 2^15; sums are then undefined. n is a multiple of 8.
  bool (*add_fixed)(float weight, const float* y, int n, int64_t* sums);
  // For SiTU.
  const ElementwiseKernel* elementwise;
};

size_t ExpertPreparedBytes(const ExpertOperations& ops, int latent_size,
                           int num_tokens);
KernelStatus PrepareExpertTokens(const ExpertOperations& ops,
                                 const float* const* rows, int latent_size,
                                 int num_tokens, void* out, int* bad_token);
size_t ExpertScratchBytes(const ExpertOperations& ops, const ExpertShape& shape,
                          int num_tokens);
KernelStatus RunExpertSlices(const ExpertOperations& ops,
                             const ExpertSliceArgs& args, int* bad_token);

// The table of entry points over a set of operations. Static: files of targets
// define nothing with weak linkage.
template <const ExpertOperations& kOps>
static constexpr ExpertKernel ExpertKernelOver() {
  return {
      [](int latent_size, int num_tokens) {
        return ExpertPreparedBytes(kOps, latent_size, num_tokens);
      },
      [](const float* const* rows, int latent_size, int num_tokens, void* out,
         int* bad_token) {
        return PrepareExpertTokens(kOps, rows, latent_size, num_tokens, out,
                                   bad_token);
      },
      [](const ExpertShape& shape, int num_tokens) {
        return ExpertScratchBytes(kOps, shape, num_tokens);
      },
      [](const ExpertSliceArgs& args, int* bad_token) {
        return RunExpertSlices(kOps, args, bad_token);
      },
  };
}

}  // namespace deltafin
