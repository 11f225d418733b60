// kernels/cuda/layer_view.h
//
// What the kernels of a layer share in the card's memory. All pointers are
// addresses there. Private to kernels/cuda/.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_experts.h"
#include "kernels/cuda/group_codes.h"

namespace deltafin::cuda {

inline constexpr int kUpRows =
    128;  // gate rows, and as many up rows, of a unit
inline constexpr int kSliceGroups = kSliceColumns / kMxfp4Group;
inline constexpr int kMaxOneTokenJobs = 512;  // of RunOneToken, a token's

// One slice of one expert for up to four of its tokens; where the layer has one
// token, for that one.
struct Job {
  const uint8_t* slice;
  int32_t columns;     // of the slice
  int32_t expert;      // for errors
  int32_t first_pair;  // of its tokens
  int32_t num_pairs;   // 1 .. kProductTokens
};

// A token of an expert.
struct Pair {
  int32_t token;
  float weight;
};

// Written anew for each call.
struct JobCounts {
  int32_t num_jobs;
  int32_t next_unit;  // the next to be taken
};

// The worst since it was last read: lowest token, lowest (expert, token).
struct Errors {
  uint32_t not_finite_token;  // 0xffffffff: none
  uint32_t padding;
  unsigned long long overflow;  // expert << 32 | token; all ones: none
};

// Prepared activations: [row][group] of kActivationBytes and of heads.
struct Activations {
  uint8_t* limbs;
  ActivationHead* heads;
};

struct LayerView {
  ExpertShape shape;
  SituParams situ;
  Multipliers multipliers;
  int num_experts;
  int top_k;
  int num_tokens;
  int slices_of_record;    // the most that an entry of records has
  int multiprocessors;     // of the card
  int blocks;              // of RunLayer
  bool chained;            // LaunchChained may overlap launches
  int one_token_warps;     // of a block of RunOneToken
  bool row_blocks_follow;  // each other, in whole stages of their strips
  int one_token_jobs;      // the most of a token that it takes; 0: it can't run
  bool few_jobs;           // no more than blocks
  bool adds;               // to the sums instead of clearing them
  int lead;                // of UnitOrder
  const CudaExpertRecord* records;  // [num_experts]
  const CudaExpertRoute* routes;    // [num_tokens, top_k]
  const float* x;                   // [num_tokens, L]
  int64_t* sums;                    // [num_tokens, L]
  Pair* pairs;                      // [num_tokens * top_k], by expert
  Job* jobs;
  JobCounts* counts;
  int32_t* ready;  // [jobs] finished units of gate and up
  // Of RunOneToken, which knows what a call wrote by its number, never 0.
  uint32_t call;
  uint32_t clearings;  // *cleared when all blocks have added to it
  uint32_t* cleared;   // blocks that have cleared their part of the sums
  unsigned long long* handed;  // [tokens, jobs, groups of a slice, 32]
  Errors* errors;
  Activations latent;  // rows are tokens, groups those of L
  Activations inner;   // rows are job * kProductTokens + its token, groups
                       // those of a slice

  DELTAFIN_HOST_DEVICE int tokens_of_job() const {
    return num_tokens == 1 ? 1 : kProductTokens;
  }
  DELTAFIN_HOST_DEVICE int up_units() const {
    const int columns = shape.slice_columns(0);
    return (columns + kUpRows - 1) / kUpRows;
  }
};

// The most slices of an entry of the table.
inline int SlicesOfRecord(const CudaExpertLimits& limits) {
  return limits.single_slices ? 1 : limits.shape.num_slices();
}

// The most jobs that `limits` can need.
inline int MaxJobs(const CudaExpertLimits& limits) {
  const int pairs = limits.max_tokens * limits.top_k;
  const int experts = pairs < limits.num_experts ? pairs : limits.num_experts;
  const int most = experts + pairs / kProductTokens;
  return (most < limits.top_k ? limits.top_k : most) * SlicesOfRecord(limits);
}

}  // namespace deltafin::cuda
