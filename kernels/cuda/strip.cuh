// kernels/cuda/strip.cuh
//
// A warp's product: 32 rows of a matrix in tile order times up to four tokens.
// Included by one file. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/layer_view.h"
#include "kernels/cuda/tile_stages.cuh"

namespace deltafin::cuda {
namespace {

// Where a lane finds its part of the activations of the next tile's groups.
// Tokens that are not there are zeros that the lane reads again and again.
struct LaneActivations {
  const uint8_t* limbs;
  const ActivationHead* head;
  int limbs_step;  // to the next tile's groups
  int head_step;

  // row(t): the row of token t in `all`; zeros: the groups of a tile.
  template <typename Row>
  __device__ __forceinline__ LaneActivations(Activations all, Activations zeros,
                                             int groups, int num_tokens,
                                             const Row& row) {
    const int lane = threadIdx.x % 32;
    const int column = lane / 4;  // of the operand: token and limb
    const bool has_limbs = column / 2 < num_tokens;
    const bool has_head = lane % 4 < num_tokens;
    const size_t limbs_row = has_limbs ? row(column / 2) : 0;
    const size_t head_row = has_head ? row(lane % 4) : 0;
    limbs = (has_limbs ? all.limbs + limbs_row * groups * kActivationBytes
                       : zeros.limbs) +
            column % 2 * 64 + lane % 4 * 16;
    head = has_head ? all.heads + head_row * groups : zeros.heads;
    limbs_step = has_limbs ? kTileGroups * kActivationBytes : 0;
    head_step = has_head ? kTileGroups : 0;
  }

  __device__ __forceinline__ void Step() {
    limbs += limbs_step;
    head += head_step;
  }
};

template <bool kFromShared>
__device__ __forceinline__ uint4 LoadActivation(const void* p) {
  if (kFromShared) return LoadShared16(SharedAddress(p));
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

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

// The next tile's groups; kSure as in StripTiles::Next.
template <bool kFromShared, bool kSure>
__device__ __forceinline__ void AddTile(StripTiles& tiles, LaneActivations& x,
                                        Multipliers m, float y[4]) {
  tiles.Next<kSure>();
#pragma unroll
  for (int i = 0; i < kTileGroups; ++i) {
    AddGroup(tiles.Group<Scales::kOfFourRows>(i),
             LoadActivation<kFromShared>(x.limbs + i * kActivationBytes),
             LoadActivation<kFromShared>(x.head + i), m, y);
  }
  x.Step();
}

// y = `groups` groups of the strip times the activations, in ascending order.
// y: rows 4g..4g+3 of token c of lane (g, c).
template <bool kFromShared>
__device__ __forceinline__ void MultiplyStrip(StripTiles& tiles, int groups,
                                              LaneActivations x, Multipliers m,
                                              float y[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) y[i] = 0;
  int left = groups / kTileGroups;
#pragma unroll 1
  for (; left > 0 && tiles.to_copy() > 0; --left) {
    AddTile<kFromShared, true>(tiles, x, m, y);
  }
#pragma unroll 1
  for (; left > 0; --left) AddTile<kFromShared, false>(tiles, x, m, y);
  if (groups % kTileGroups != 0) {
    tiles.Next<false>();
    AddGroup(tiles.Group<Scales::kOfFourRows>(0),
             LoadActivation<kFromShared>(x.limbs),
             LoadActivation<kFromShared>(x.head), m, y);
  }
}

}  // namespace
}  // namespace deltafin::cuda
