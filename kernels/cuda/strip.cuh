// kernels/cuda/strip.cuh
//
// A warp's product: 32 rows of a matrix in tile order times up to four tokens.
// Included by one file of a kernel. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/layer_view.h"
#include "kernels/cuda/tile_stages.cuh"

namespace deltafin::cuda {
namespace {

constexpr uint32_t kHeadBytes = sizeof(ActivationHead);

// Prepared activations in shared memory: [token][group].
struct SharedActivations {
  const uint8_t* limbs;
  const ActivationHead* heads;
};

// Where a lane finds its part of the activations of the next stage's groups.
// Tokens that are not there are zeros that the lane reads again and again.
struct LaneActivations {
  uint32_t limbs;
  uint32_t head;
  uint32_t limbs_step;  // to the next stage's groups
  uint32_t head_step;

  // groups: of a token in `all`; zeros: kStageGroups of them.
  __device__ __forceinline__ LaneActivations(SharedActivations all,
                                             SharedActivations zeros,
                                             int groups, int num_tokens) {
    const int lane = threadIdx.x % 32;
    const int column = lane / 4;  // of the operand: token and limb
    const bool has_limbs = column / 2 < num_tokens;
    const bool has_head = lane % 4 < num_tokens;
    limbs = SharedAddress(has_limbs ? all.limbs +
                                          column / 2 * groups * kActivationBytes
                                    : zeros.limbs) +
            column % 2 * 64 + lane % 4 * 16;
    head =
        SharedAddress(has_head ? all.heads + lane % 4 * groups : zeros.heads);
    limbs_step = has_limbs ? kStageGroups * kActivationBytes : 0;
    head_step = has_head ? kStageGroups * kHeadBytes : 0;
  }

  __device__ __forceinline__ void Step() {
    limbs += limbs_step;
    head += head_step;
  }
};

// Four registers of codes, those with a positive sign and the others.
struct DecodedRows {
  uint32_t positive[4];
  uint32_t negative[4];

  // Rows 4g + 2 half and the next one.
  __device__ __forceinline__ DecodedRows(uint4 codes, int half, Multipliers m) {
    const uint32_t first = half == 0 ? codes.x : codes.z;
    const uint32_t second = half == 0 ? codes.y : codes.w;
    const uint32_t nibbles[4] = {first, second, first >> 16, second >> 16};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitCodes split = ShiftedCodes(nibbles[i], m);
      positive[i] = split.positive;
      negative[i] = split.negative;
    }
  }
};

// start + codes * x.
__device__ __forceinline__ uint4 MultiplyCodes(const uint32_t codes[4],
                                               uint32_t x0, uint32_t x1,
                                               uint4 start) {
  uint4 sums;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(sums.x), "=r"(sums.y), "=r"(sums.z), "=r"(sums.w)
      : "r"(codes[0]), "r"(codes[1]), "r"(codes[2]), "r"(codes[3]), "r"(x0),
        "r"(x1), "r"(start.x), "r"(start.y), "r"(start.z), "r"(start.w));
  return sums;
}

__device__ __forceinline__ uint4 Multiply(const DecodedRows& rows, uint32_t x0,
                                          uint32_t x1, uint4 start) {
  return MultiplyCodes(rows.negative, x0, x1,
                       MultiplyCodes(rows.positive, x0, x1, start));
}

__device__ __forceinline__ float CombinedSum(uint32_t l0, uint32_t l1,
                                             uint32_t l2, Multipliers m) {
  return static_cast<float>(CombineLimbs(static_cast<int32_t>(l0),
                                         static_cast<int32_t>(l1),
                                         static_cast<int32_t>(l2), m));
}

// Adds one group of four rows to y, for the lane's token.
__device__ __forceinline__ void AddGroup(GroupPart part, uint4 limbs,
                                         uint4 head, Multipliers m,
                                         float y[4]) {
  float factor[4];
  GroupFactors(part.scales, head.w, factor);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const DecodedRows rows(part.codes, half, m);
    const uint4 low = Multiply(rows, limbs.x, limbs.y, head);
    const uint4 high = Multiply(rows, limbs.z, limbs.w, uint4{0, 0, 0, 0});
    float* out = y + 2 * half;
    out[0] =
        fmaf(CombinedSum(low.x, low.y, high.x, m), factor[2 * half], out[0]);
    out[1] = fmaf(CombinedSum(low.z, low.w, high.z, m), factor[2 * half + 1],
                  out[1]);
  }
}

// Group i of the stage.
__device__ __forceinline__ void AddStageGroup(const StripTiles& tiles,
                                              const LaneActivations& x, int i,
                                              Multipliers m, float y[4]) {
  AddGroup(tiles.Group<Scales::kOfFourRows>(i),
           LoadShared16(x.limbs + i * kActivationBytes),
           LoadShared16(x.head + i * kHeadBytes), m, y);
}

// Adds `groups` groups of the strip times the activations to y, rows 4g..4g+3
// of token c of lane (g, c), in ascending order. groups: a multiple of
// kStageGroups or all that are left of the strip.
__device__ __forceinline__ void MultiplyStrip(StripTiles& tiles, int groups,
                                              LaneActivations x, Multipliers m,
                                              float y[4]) {
  int left = groups;
#pragma unroll 1
  for (; left >= kStageGroups; left -= kStageGroups) {
    tiles.Next();
#pragma unroll
    for (int i = 0; i < kStageGroups; ++i) AddStageGroup(tiles, x, i, m, y);
    x.Step();
  }
  if (left == 0) return;
  tiles.Next();
#pragma unroll 1
  for (int i = 0; i < left; ++i) AddStageGroup(tiles, x, i, m, y);
}

}  // namespace
}  // namespace deltafin::cuda
