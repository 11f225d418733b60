// kernels/cuda/single_token.cuh
//
// MultiplyStrip for one token, which is most of decoding: the columns of the
// matrix instruction that other tokens would have take other groups instead.
// Included by one file. Private to kernels/cuda/.
//
// The four groups of a stage go into the same sums, group k with activations in
// columns 2k and 2k+1 and zeros elsewhere, so lane (g, c) ends with the sums of
// group c of rows 4g..4g+3 and only one in four conversions is for nothing.
// Then the quad turns its 4 x 4 numbers, so that each lane runs the chain of
// its own row.
#pragma once

#include "kernels/cuda/strip.cuh"

namespace deltafin::cuda {
namespace {

// 16 bytes of shared memory or, where not `wanted`, zeros.
__device__ __forceinline__ uint4 LoadWanted(uint32_t at, bool wanted) {
  uint4 v;
  asm volatile(
      "{ .reg .pred p; setp.ne.s32 p, %5, 0;"
      "  mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
      "  @p ld.shared.v4.u32 {%0,%1,%2,%3}, [%4]; }"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "r"(at), "r"(static_cast<int>(wanted))
      : "memory");
  return v;
}

// The activations of the token's next four groups, in shared memory.
struct SingleActivations {
  uint32_t limbs;  // of the lane's group of the four, g / 2
  uint32_t head;   // of the lane's group of the four, c
  int left;        // groups from the first one to the end

  __device__ __forceinline__ SingleActivations(const uint8_t* all_limbs,
                                               const ActivationHead* heads,
                                               int groups)
      : left(groups) {
    const int lane = threadIdx.x % 32;
    limbs = SharedAddress(all_limbs) + lane / 8 * kActivationBytes +
            lane / 4 % 2 * 64 + lane % 4 * 16;
    head = SharedAddress(heads + lane % 4);
  }

  __device__ __forceinline__ void Step() {
    limbs += kStageGroups * kActivationBytes;
    head += kStageGroups * kHeadBytes;
    left -= kStageGroups;
  }
};

// Sums of four groups: rows 4g, 4g+1 and 4g+2, 4g+3.
struct StageSums {
  uint4 low[2];
  uint4 high[2];

  // Adds a group to those columns that `limbs` is not zero for.
  __device__ __forceinline__ void Add(uint4 codes, uint4 limbs, Multipliers m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const DecodedRows rows(codes, half, m);
      low[half] = Multiply(rows, limbs.x, limbs.y, low[half]);
      high[half] = Multiply(rows, limbs.z, limbs.w, high[half]);
    }
  }
};

// The stage's groups, or the `x.left` that are there. kSure: REQUIRES all are
// there, and a stage to copy.
template <bool kSure>
__device__ __forceinline__ void AddStageOnce(StripTiles& tiles,
                                             const SingleActivations& x,
                                             Multipliers m, float* y) {
  const int c = threadIdx.x % 4;
  const int own = threadIdx.x % 32 / 8;
  StageSums sums;
  sums.low[0] = LoadWanted(x.head, kSure || c < x.left);
  sums.low[1] = sums.low[0];
  sums.high[0] = sums.high[1] = uint4{0, 0, 0, 0};
  const uint32_t own_fields = sums.low[0].w;
  float factor[kStageGroups];
  tiles.Next<kSure>();
#pragma unroll
  for (int k = 0; k < kStageGroups; ++k) {
    const bool there = kSure || k < x.left;
    const GroupPart part = tiles.Group<Scales::kOfOneRow>(k);
    sums.Add(part.codes, LoadWanted(x.limbs, there && own == k), m);
    const uint32_t fields = __shfl_sync(~0u, own_fields, k, 4);
    factor[k] = FloatOf(there ? ClampFields(part.scales, fields) << 23 : 0u);
  }
  float by_row[4];
  float by_group[4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 low = sums.low[half];
    const uint4 high = sums.high[half];
    by_row[2 * half] = CombinedSum(low.x, low.y, high.x, m);
    by_row[2 * half + 1] = CombinedSum(low.z, low.w, high.z, m);
  }
  tiles.TurnQuad(by_row, by_group);
#pragma unroll
  for (int k = 0; k < kStageGroups; ++k) {
    *y = fmaf(by_group[k], factor[k], *y);
  }
}

// Adds `x.left` groups of the strip to *y, row 4g+c of the token in lane
// (g, c), in ascending order. x.left: as in MultiplyStrip.
__device__ __forceinline__ void MultiplyStripOnce(StripTiles& tiles,
                                                  SingleActivations x,
                                                  Multipliers m, float* y) {
#pragma unroll 1
  for (; x.left >= kStageGroups && tiles.to_copy() > 0; x.Step()) {
    AddStageOnce<true>(tiles, x, m, y);
  }
#pragma unroll 1
  for (; x.left > 0; x.Step()) AddStageOnce<false>(tiles, x, m, y);
}

}  // namespace
}  // namespace deltafin::cuda
