// kernels/cuda/single_token.cuh
//
// MultiplyStrip for one token, which is most of decoding: the columns of the
// matrix instruction that other tokens would have take other groups instead.
// Included by one file. Private to kernels/cuda/.
//
// Four groups go into the same sums, group k with activations in columns 2k and
// 2k+1 and zeros elsewhere, so lane (g, c) ends with the sums of group c of
// rows 4g..4g+3 and only one in four conversions is for nothing. Then the quad
// turns its 4 x 4 numbers, so that each lane runs the chain of its own row.
#pragma once

#include "kernels/cuda/strip.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kRoundGroups = 4;
constexpr int kRoundTiles = kRoundGroups / kTileGroups;

// Where the lanes of a warp turn their numbers: 16 bytes a lane, quads 80 bytes
// apart, so that reading by columns meets every bank once.
struct QuadTurn {
  alignas(16) uint8_t bytes[8 * 80];
};

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
    limbs += kRoundGroups * kActivationBytes;
    head += kRoundGroups * static_cast<uint32_t>(sizeof(ActivationHead));
    left -= kRoundGroups;
  }
};

// Sums of four groups: rows 4g, 4g+1 and 4g+2, 4g+3.
struct RoundSums {
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

// From rows 4g..4g+3 of group c to groups 0..3 of row 4g+c.
__device__ __forceinline__ void TurnQuad(const float by_row[4], QuadTurn& turn,
                                         float by_group[4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t quad = SharedAddress(&turn) + lane / 4 * 80;
  asm volatile(
      "st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(quad + lane % 4 * 16),
      "f"(by_row[0]), "f"(by_row[1]), "f"(by_row[2]), "f"(by_row[3])
      : "memory");
  __syncwarp();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    by_group[k] = FloatOf(LoadShared4(quad + k * 16 + lane % 4 * 4));
  }
  __syncwarp();
}

// Four groups, or the `x.left` that are there. kSure: REQUIRES there are four,
// and as many tiles to copy.
template <bool kSure>
__device__ __forceinline__ void AddRound(StripTiles& tiles,
                                         const SingleActivations& x,
                                         Multipliers m, QuadTurn& turn,
                                         float* y) {
  const int c = threadIdx.x % 4;
  const int own = threadIdx.x % 32 / 8;
  RoundSums sums;
  sums.low[0] = LoadWanted(x.head, kSure || c < x.left);
  sums.low[1] = sums.low[0];
  sums.high[0] = sums.high[1] = uint4{0, 0, 0, 0};
  const uint32_t own_fields = sums.low[0].w;
  float factor[kRoundGroups];
#pragma unroll
  for (int tile = 0; tile < kRoundTiles; ++tile) {
    if (kSure || tile * kTileGroups < x.left) tiles.Next<kSure>();
#pragma unroll
    for (int i = 0; i < kTileGroups; ++i) {
      const int k = tile * kTileGroups + i;
      const bool there = kSure || k < x.left;
      const GroupPart part = tiles.Group<Scales::kOfOneRow>(i);
      sums.Add(part.codes, LoadWanted(x.limbs, there && own == k), m);
      const uint32_t fields = __shfl_sync(~0u, own_fields, k, 4);
      factor[k] = FloatOf(there ? ClampFields(part.scales, fields) << 23 : 0u);
    }
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
  TurnQuad(by_row, turn, by_group);
#pragma unroll
  for (int k = 0; k < kRoundGroups; ++k) {
    *y = fmaf(by_group[k], factor[k], *y);
  }
}

// `x.left` groups of the strip. y: rows 4g..4g+3 of the token, in every lane of
// the quad.
__device__ __forceinline__ void MultiplyStripOnce(StripTiles& tiles,
                                                  SingleActivations x,
                                                  Multipliers m, QuadTurn& turn,
                                                  float y[4]) {
  float row = 0;  // 4g + c
#pragma unroll 1
  for (; x.left >= kRoundGroups && tiles.to_copy() >= kRoundTiles; x.Step()) {
    AddRound<true>(tiles, x, m, turn, &row);
  }
#pragma unroll 1
  for (; x.left > 0; x.Step()) {
    AddRound<false>(tiles, x, m, turn, &row);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) y[i] = __shfl_sync(~0u, row, i, 4);
}

}  // namespace
}  // namespace deltafin::cuda
