// kernels/cuda/strip.cuh
//
// A warp's product: 32 rows of a matrix in tile order times up to four tokens.
// Included by one file. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/layer_view.h"

namespace deltafin::cuda {
namespace {

// Tiles asked for ahead: with 24 warps on a multiprocessor 78 KB are under way,
// three times what bandwidth times latency asks for.
constexpr int kDepth = 3;

__device__ __forceinline__ uint4 LoadStream16(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ __forceinline__ uint32_t LoadStream4(const uint8_t* p) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

// One lane's part of a tile of two groups.
struct TilePart {
  uint4 codes[2];
  uint32_t scales[2];
};

// Where a lane finds its part of the tiles of one strip.
struct StripTiles {
  const uint8_t* codes;   // of the first tile's first group
  const uint8_t* scales;  // likewise
  size_t stride;          // to the next tile
  int strip;
  int groups;

  // block: the row block's first byte; rows: how many it has.
  __device__ StripTiles(const uint8_t* block, int rows, int strip, int groups)
      : stride(static_cast<size_t>(rows) * kTileGroups * kGroupRowBytes),
        strip(strip),
        groups(groups) {
    const int lane = threadIdx.x % 32;
    scales = block + lane / 4 * 4;
    codes = block + lane / 4 * 16 + lane % 4 * kOctetBytes;
  }

  __device__ __forceinline__ TilePart Load(int tile) const {
    const size_t at = tile * stride + strip * kTileBytes;
    const uint8_t* code = codes + at + kTileScaleBytes;
    const uint8_t* scale = scales + at;
    return {{LoadStream16(code),
             LoadStream16(code + kOctetsPerGroup * kOctetBytes)},
            {LoadStream4(scale), LoadStream4(scale + kTileRows)}};
  }

  // The last tile of an odd number of groups: one group.
  __device__ __forceinline__ TilePart LoadHalf(int tile) const {
    const size_t at = tile * stride + strip * (kTileBytes / 2);
    return {{LoadStream16(codes + at + kTileRows), {}},
            {LoadStream4(scales + at), 0}};
  }
};

// Where a lane finds its part of the activations, group by group.
struct LaneActivations {
  const uint4* limbs = nullptr;  // nullptr: no such token
  const int2* head = nullptr;    // likewise
  static constexpr int kStep = kActivationBytes / sizeof(uint4);

  // row(t): the row of token t in `limbs` and `heads`.
  template <typename Row>
  __device__ LaneActivations(const uint8_t* all_limbs,
                             const ActivationHead* heads, int groups,
                             int num_tokens, const Row& row) {
    const int lane = threadIdx.x % 32;
    const int column = lane / 4;  // of the operand: token and limb
    if (column / 2 < num_tokens) {
      limbs = reinterpret_cast<const uint4*>(
                  all_limbs + static_cast<size_t>(row(column / 2)) * groups *
                                  kActivationBytes) +
              column % 2 * 4 + lane % 4;
    }
    if (lane % 4 < num_tokens) {
      head = reinterpret_cast<const int2*>(
          heads + static_cast<size_t>(row(lane % 4)) * groups);
    }
  }
};

__device__ __forceinline__ void Multiply(int32_t sums[4],
                                         const uint32_t codes[4], uint32_t x0,
                                         uint32_t x1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(codes[0]), "r"(codes[1]), "r"(codes[2]), "r"(codes[3]), "r"(x0),
        "r"(x1));
}

// Adds one group of four rows to y, for the lane's token.
__device__ __forceinline__ void AddGroup(uint4 codes, uint32_t scales,
                                         uint4 limbs, int2 head, Multipliers m,
                                         float y[4]) {
  float factor[4];
  GroupFactors(scales, static_cast<uint32_t>(head.y), factor);
  const uint32_t rows[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t first = rows[2 * half];
    const uint32_t second = rows[2 * half + 1];
    const uint32_t a[4] = {ShiftedCodes(first, m), ShiftedCodes(second, m),
                           ShiftedCodes(first >> 16, m),
                           ShiftedCodes(second >> 16, m)};
    int32_t low[4] = {head.x, 0, head.x, 0};
    int32_t high[4] = {0, 0, 0, 0};
    Multiply(low, a, limbs.x, limbs.y);
    Multiply(high, a, limbs.z, limbs.w);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int32_t sum = CombineLimbs(low[2 * i], low[2 * i + 1], high[2 * i]);
      const int row = 2 * half + i;
      y[row] = fmaf(static_cast<float>(sum), factor[row], y[row]);
    }
  }
}

template <bool kFromShared>
__device__ __forceinline__ void AddGroupOf(const TilePart& tile, int half,
                                           LaneActivations& x, Multipliers m,
                                           float y[4]) {
  uint4 limbs = {0, 0, 0, 0};
  int2 head = {0, 0};
  if (x.limbs != nullptr) {
    limbs = kFromShared ? *x.limbs : __ldg(x.limbs);
    x.limbs += LaneActivations::kStep;
  }
  if (x.head != nullptr) {
    head = kFromShared ? *x.head : __ldg(x.head);
    x.head += 1;
  }
  AddGroup(tile.codes[half], tile.scales[half], limbs, head, m, y);
}

// y += the strip times the activations, groups in ascending order. y: rows
// 4g..4g+3 of token c of lane (g, c).
template <bool kFromShared>
__device__ __forceinline__ void MultiplyStrip(const StripTiles& tiles,
                                              LaneActivations x, Multipliers m,
                                              float y[4]) {
  const int full = tiles.groups / kTileGroups;
  TilePart ahead[kDepth];
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (d < full) ahead[d] = tiles.Load(d);
  }
  for (int first = 0; first < full; first += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (first + d >= full) break;
      const TilePart tile = ahead[d];
      if (first + d + kDepth < full) ahead[d] = tiles.Load(first + d + kDepth);
      AddGroupOf<kFromShared>(tile, 0, x, m, y);
      AddGroupOf<kFromShared>(tile, 1, x, m, y);
    }
  }
  if (tiles.groups % kTileGroups != 0) {
    AddGroupOf<kFromShared>(tiles.LoadHalf(full), 0, x, m, y);
  }
}

}  // namespace
}  // namespace deltafin::cuda
