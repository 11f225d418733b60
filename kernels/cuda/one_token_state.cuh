// kernels/cuda/one_token_state.cuh
//
// What a block of RunOneToken keeps in shared memory, and its share of the
// layer's work. Included by one file. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/layer_view.h"
#include "kernels/cuda/one_token_shares.h"
#include "kernels/cuda/strip.cuh"

namespace deltafin::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffff;
// As many registers for each thread as the products need.
constexpr int kMostWarps = 24;

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ int Warps() { return static_cast<int>(blockDim.x) / 32; }

// One slice of one of the token's experts.
struct TokenJob {
  const uint8_t* slice;
  int32_t columns;
  float weight;
};

// 32 rows of a job's gate and up, of which one warp of a pair multiplies each,
// or of its down, with the same strip of so many row blocks behind.
struct Strip {
  uint32_t number;

  __device__ static Strip Up(int job, int part) {
    return {static_cast<uint32_t>(job) << 16 | static_cast<uint32_t>(part)
                                                   << 1};
  }
  __device__ static Strip Down(int job, int part, int more) {
    return {static_cast<uint32_t>(job) << 16 |
            static_cast<uint32_t>(more) << kMoreShift |
            static_cast<uint32_t>(part) << 1 | 1u};
  }
  __device__ static Strip None() { return {~0u}; }
  __device__ bool IsNone() const { return number == ~0u; }
  __device__ bool down() const { return (number & 1) != 0; }
  __device__ int job() const { return static_cast<int>(number >> 16); }
  __device__ int part() const {
    return static_cast<int>(number >> 1 & (1u << (kMoreShift - 1)) - 1);
  }
  __device__ int more() const {
    return static_cast<int>(number >> kMoreShift & 15u);
  }
  // Of the next row block, where more() > 0.
  __device__ Strip Next() const {
    return {number + (kBlockStrips << 1) - (1u << kMoreShift)};
  }

 private:
  static constexpr int kMoreShift = 12;
};
static_assert(kMostRowBlocks <= 16);

// What a warp keeps here takes no registers, of which the products leave none,
// nor local memory, for which the first-level cache has no room.
struct WarpShared {
  WarpStages stages;
  // h of the job `taken_over`.
  alignas(16) uint8_t limbs[kSliceGroups][kActivationBytes];
  ActivationHead heads[kSliceGroups];
  // Strips whose copies have begun, in a ring.
  Strip queue[4];
  uint32_t pushed;
  uint32_t popped;
  int32_t taken_over;
  // Units of gate and up of the block's share: each up_step-th.
  int32_t next_up;
  int32_t end_up;
  int32_t up_step;
};
static_assert(kStages < 4);  // as many strips can be on their way

// First in a block's memory; then the token's limbs and heads, then what the
// warps have.
struct alignas(128) Header {
  TokenJob jobs[kMaxOneTokenJobs];
  int32_t experts[kMaxOneTokenJobs];  // of the jobs, for errors
  alignas(16) uint8_t zero_limbs[kStageGroups][kActivationBytes];
  ActivationHead zero_heads[kStageGroups];
  float up[kMostWarps / 2][2][32];  // of a pair of warps, in turn
  alignas(16) uint8_t inner[kMostWarps / 2][kActivationBytes];  // the same
  int32_t warp_jobs[kMostWarps];  // that each warp has found
  TokenBlock own;
  BlockShare share;
  DownItems items;
  int32_t early_pairs;  // of warps: see EarlyPart
  int32_t next_down;    // taken of the share's strips of down
};

extern __shared__ __align__(128) uint8_t one_token_memory[];

__device__ Header& SharedHeader() {
  return *reinterpret_cast<Header*>(one_token_memory);
}
__device__ SharedActivations Zeros() {
  return {&SharedHeader().zero_limbs[0][0], SharedHeader().zero_heads};
}

DELTAFIN_HOST_DEVICE int LatentGroups(const LayerView& view) {
  return view.shape.latent_size / kMxfp4Group;
}
// Of the heads: so many that stages begin at a multiple of 128 bytes.
DELTAFIN_HOST_DEVICE int HeadPlaces(const LayerView& view) {
  return (LatentGroups(view) + 7) / 8 * 8;
}

// The token's.
__device__ uint8_t* SharedLimbs() { return one_token_memory + sizeof(Header); }
__device__ ActivationHead* SharedHeads(const LayerView& view) {
  return reinterpret_cast<ActivationHead*>(
      SharedLimbs() + LatentGroups(view) * kActivationBytes);
}

__device__ WarpShared& OwnShared(const LayerView& view) {
  return reinterpret_cast<WarpShared*>(SharedHeads(view) +
                                       HeadPlaces(view))[Warp()];
}

inline size_t SharedBytes(const LayerView& view, int warps) {
  return sizeof(Header) + LatentGroups(view) * kActivationBytes +
         HeadPlaces(view) * sizeof(ActivationHead) + warps * sizeof(WarpShared);
}

}  // namespace
}  // namespace deltafin::cuda
