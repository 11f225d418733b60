// kernels/cuda/spine_attend_tile.cuh
//
// A block's tile of latent attention in shared memory: keys as halves, scores,
// weights and what each row has seen. Included by one file. Private to
// kernels/cuda/.
#pragma once

#include "kernels/cuda/spine_device.cuh"
#include "kernels/cuda/spine_halves.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = 32;  // (token, head) rows of a block
constexpr int kMaxLatent = 512;
constexpr int kMaxWidth = kMaxLatent + 64;
constexpr int kStep = 16;              // columns of an instruction
constexpr int kKeyParts = kWarps / 2;  // of the columns, each two warps'
constexpr int kPartSteps = (kMaxWidth / kStep + kKeyParts - 1) / kKeyParts;
constexpr int kWarpRows = kRows / kWarps;              // that a warp weighs
constexpr int kWarpColumns = kMaxLatent / kWarps;      // whose sums it has
constexpr int kLaneVectors = (kMaxWidth + 127) / 128;  // four floats each
// Weights are at most 2^14 before they are halved.
constexpr int kWeightExponent = 14;

struct AttendCall {
  MlaCall call;
  int splits = 1;
  int width = 0;   // of a key, in whole steps
  int stride = 0;  // halves of a key in shared memory
  bool early = false;
};

// The part of shared memory whose extents are known.
template <int kPositions>
struct Tile {
  // Half a warp stores scores, a quarter reads weights without meeting a bank
  // twice, or nearly so with few positions.
  static constexpr int kScoreStride = kPositions + kPositions / 4;
  static constexpr int kWeightStride = kPositions + 8;

  float scores[kKeyParts][kRows][kScoreStride];
  uint16_t weights[2][kRows][kWeightStride];  // high, low
  alignas(8) int key_exponents[kPositions];
  float row_scales[kRows];    // of queries
  float score_scales[kRows];  // those with the scale of all scores
  int64_t seen[kRows];        // the end of the positions that a row sees
  float largest[kRows];
  float total[kRows];
  float rescale[kRows];
};

// Starts copying `count` rows of floats, as one group of copies.
__device__ void CopyRows(const float* from, int count, int width, float* to) {
  const int vectors = count * width / 4;
#pragma unroll 1
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const uint32_t address =
        static_cast<uint32_t>(__cvta_generic_to_shared(to + 4 * i));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                 "l"(from + 4 * i));
  }
  asm volatile("cp.async.commit_group;");
}

// A row of floats over the lanes of a warp, zeros beyond its end.
struct LaneRow {
  float4 v[kLaneVectors];
};

__device__ __forceinline__ LaneRow LoadRow(const float* row, int width) {
  LaneRow loaded;
#pragma unroll
  for (int i = 0; i < kLaneVectors; ++i) {
    const int column = 4 * (threadIdx.x % 32) + 128 * i;
    loaded.v[i] = {0, 0, 0, 0};
    if (column >= width) continue;
    loaded.v[i] = *reinterpret_cast<const float4*>(row + column);
  }
  return loaded;
}

__device__ __forceinline__ int RowExponent(const LaneRow& row) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kLaneVectors; ++i) {
    const float4& v = row.v[i];
    for (const float f : {v.x, v.y, v.z, v.w}) {
      largest = max(largest, BitsOf(f) & 0x7fffffffu);
    }
  }
  return HalvesExponent(__reduce_max_sync(kAllLanes, largest));
}

// Turns the tile's keys into halves; a warp a row at a time. The last row
// stands for those beyond.
template <int kPositions>
__device__ void SplitKeys(const AttendCall& attend, const float* raw, int count,
                          uint16_t* high, uint16_t* low,
                          Tile<kPositions>& tile) {
  const int lane = threadIdx.x % 32;
  const int width = attend.call.latent + attend.call.rope;
#pragma unroll 1
  for (int p = threadIdx.x / 32; p < kPositions; p += kWarps) {
    const LaneRow row = LoadRow(raw + min(p, count - 1) * width, width);
    const int exponent = RowExponent(row);
    const float scale = PowerOfTwo(-exponent);
    if (lane == 0) tile.key_exponents[p] = exponent;
#pragma unroll
    for (int i = 0; i < kLaneVectors; ++i) {
      const int column = 4 * lane + 128 * i;
      if (column >= attend.width) continue;
      const float4& v = row.v[i];
      const Halves first = SplitHalves(v.x * scale, v.y * scale);
      const Halves second = SplitHalves(v.z * scale, v.w * scale);
      const int at = p * attend.stride + column;
      *reinterpret_cast<uint2*>(high + at) = {first.high, second.high};
      *reinterpret_cast<uint2*>(low + at) = {first.low, second.low};
    }
  }
}
}  // namespace
}  // namespace deltafin::cuda
