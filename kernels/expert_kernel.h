// kernels/expert_kernel.h
//
// The routed-expert feed-forward y += w * W2 SiTU(W1 x, W3 x), fused and slice
// by slice, on MXFP4 weights in tile order. One table of entry points per
// instruction set; all give the same bits (docs/numerics.md sections 2, 3, 8).
// Every entry point is re-entrant: state lives in the caller's buffers. None
// allocates, blocks or throws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expert_weights.h"
#include "kernels/kernel_status.h"

namespace deltafin {

// A run of slices of one expert for T tokens.
struct ExpertSliceArgs {
  ExpertShape shape;
  SituParams situ;
  const uint8_t* slices = nullptr;  // bytes slice_offset(run.first) .. of the
                                    // record; 64-byte aligned is fastest
  SliceRun run;
  int num_tokens = 0;              // T >= 1
  const void* prepared = nullptr;  // as written by prepare for exactly these T
                                   // tokens in this order
  const float* weights =
      nullptr;  // [T] router weight of this expert for each token
  int64_t* const* sums =
      nullptr;  // T pointers to [L] i64 fixed-point sums (scale 2^40), added
                // to; 64-byte aligned rows
  void* scratch = nullptr;  // scratch_bytes(shape, T), 64-byte aligned, private
                            // to the calling thread
};

struct ExpertKernel {
  // Bytes that `prepare` writes for T tokens of width L.
  size_t (*prepared_bytes)(int latent_size, int num_tokens);
  // Quantises T latent rows to integer limbs. rows: T pointers to [L] f32. out:
  // prepared_bytes, 64-byte aligned. kNotFinite: some value is inf or NaN
  // (contents of out then undefined; *bad_token, if given, is the lowest such
  // token).
  KernelStatus (*prepare)(const float* const* rows, int latent_size,
                          int num_tokens, void* out, int* bad_token);
  // Scratch that run_slices needs.
  size_t (*scratch_bytes)(const ExpertShape& shape, int num_tokens);
  // Adds w_t * fixed(down_s SiTU(gate_s x, up_s x)) for every token and slice
  // of the run to the sums. On an error the sums are undefined, and *bad_token
  // (if given) is the lowest token in error. REQUIRES: no scale byte of the
  // slices is 255 (checked when an expert is read).
  KernelStatus (*run_slices)(const ExpertSliceArgs& args, int* bad_token);
};

}  // namespace deltafin
