// kernels/cuda/spine_attend_scores.cuh
//
// Scores of a tile of keys and the weights they become. Included by one file.
// Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/spine_attend_tile.cuh"

namespace deltafin::cuda {
namespace {

// The steps of a warp's part of the columns.
struct Part {
  int first;
  int count;
};

__device__ Part PartOf(int width) {
  const int steps = width / kStep, part = threadIdx.x / 64;
  const int first = steps * part / kKeyParts;
  return {first, steps * (part + 1) / kKeyParts - first};
}

// The warp's 16 rows of its part, as left operands.
struct Queries {
  uint32_t high[kPartSteps][4];
  uint32_t low[kPartSteps][4];
};

// Columns column and column + 1 of a row, in halves.
__device__ __forceinline__ Halves SplitPair(const float* row, int column,
                                            int width, float scale) {
  float2 v = {0, 0};
  if (column < width) v = *reinterpret_cast<const float2*>(row + column);
  return SplitHalves(v.x * scale, v.y * scale);
}

// rows: the block's, of which there are `count`. A barrier within.
template <int kPositions>
__device__ Queries FetchQueries(const MlaCall& call, const float* rows,
                                int count, const Part& part,
                                Tile<kPositions>& tile) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int width = call.latent + call.rope;
#pragma unroll 1
  for (int r = warp; r < kRows; r += kWarps) {
    const LaneRow row =
        LoadRow(rows + size_t(min(r, count - 1)) * width, width);
    const int exponent = RowExponent(row);
    if (lane != 0) continue;
    tile.row_scales[r] = PowerOfTwo(exponent);
    tile.score_scales[r] = PowerOfTwo(exponent) * call.scale;
  }
  __syncthreads();
  Queries queries;
  const int upper = warp % 2 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = upper + 8 * half;
    const float* row = rows + size_t(min(r, count - 1)) * width;
    const float scale = 1.0f / tile.row_scales[r];
#pragma unroll
    for (int s = 0; s < kPartSteps; ++s) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int column =
            s < part.count ? kStep * (part.first + s) + 8 * k + 2 * (lane % 4)
                           : width;
        const Halves v = SplitPair(row, column, width, scale);
        queries.high[s][half + 2 * k] = v.high;
        queries.low[s][half + 2 * k] = v.low;
      }
    }
  }
  return queries;
}

// The part's share of the scores of 16 rows and all positions of the tile.
template <int kPositions>
__device__ void Score(const Queries& queries, const Part& part, int stride,
                      const uint16_t* high, const uint16_t* low,
                      Tile<kPositions>& tile) {
  constexpr int kColumns = kPositions / 8;  // of the products, eight each
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[kColumns][4] = {};
  // Lanes 8i..8i+7 say where the rows of matrix i lie: positions 0..7 or 8..15
  // and columns 0..7 or 8..15.
  const int at = (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8 +
                 kStep * part.first;
#pragma unroll
  for (int s = 0; s < kPartSteps; ++s) {
    if (s >= part.count) continue;
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      uint32_t h[4], l[4];
      LoadMatrices(high + at + 8 * n * stride + kStep * s, h);
      LoadMatrices(low + at + 8 * n * stride + kStep * s, l);
      MultiplyHalves(sums[n], queries.low[s], h);
      MultiplyHalves(sums[n + 1], queries.low[s], h + 2);
      MultiplyHalves(sums[n], queries.high[s], l);
      MultiplyHalves(sums[n + 1], queries.high[s], l + 2);
      MultiplyHalves(sums[n], queries.high[s], h);
      MultiplyHalves(sums[n + 1], queries.high[s], h + 2);
    }
  }
  float* out =
      &tile.scores[warp / 2][16 * (warp % 2) + lane / 4][2 * (lane % 4)];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    *reinterpret_cast<float2*>(out + 8 * n) = {sums[n][0], sums[n][1]};
    *reinterpret_cast<float2*>(out + 8 * Tile<kPositions>::kScoreStride +
                               8 * n) = {sums[n][2], sums[n][3]};
  }
}

// The largest of all lanes' scores; NaN if one is.
__device__ __forceinline__ float WarpLargest(float score) {
  const uint32_t bits = BitsOf(score);
  const uint32_t ordered =
      (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  const uint32_t largest = __reduce_max_sync(kAllLanes, ordered);
  return FloatOf((largest & 0x80000000u) != 0 ? largest & 0x7fffffffu
                                              : ~largest);
}

// Scores become weights. `first`: position of the tile. Sums are in units of
// 2^before up to here, and from here on in those of the result.
template <int kPositions>
__device__ int Weigh(int64_t first, int before, Tile<kPositions>& tile) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int position = lane % kPositions;
  const int exponent = tile.key_exponents[position];
  const int unit = max(before, __reduce_max_sync(kAllLanes, exponent));
  const float key_scale = PowerOfTwo(exponent);
  const float weight_scale = PowerOfTwo(exponent - unit + kWeightExponent);
  float old = 0, now = 0, total = 0;  // of the row with the lane's number
#pragma unroll
  for (int i = 0; i < kWarpRows; ++i) {
    const int r = kWarpRows * warp + i;
    const bool visible = lane < kPositions && first + lane < tile.seen[r];
    float score = tile.scores[0][r][position];
#pragma unroll
    for (int p = 1; p < kKeyParts; ++p) score += tile.scores[p][r][position];
    score = score * tile.score_scales[r] * key_scale;
    if (!visible) score = -INFINITY;
    const float row_old = tile.largest[r];
    const float row_now = fmaxf(row_old, WarpLargest(score));
    // NaN must pass on: fmaxf drops it, the weight below does not.
    const float weight = visible ? Exp(score - row_now) : 0.0f;
    const float row_total = WarpSum(weight);
    const Halves halves = SplitHalves(weight * weight_scale, 0);
    if (lane < kPositions) {
      tile.weights[0][r][lane] = static_cast<uint16_t>(halves.high);
      tile.weights[1][r][lane] = static_cast<uint16_t>(halves.low);
    }
    old = lane == i ? row_old : old;
    now = lane == i ? row_now : now;
    total = lane == i ? row_total : total;
  }
  __syncwarp();  // all lanes have read tile.largest
  if (lane < kWarpRows) {
    const int r = kWarpRows * warp + lane;
    const float rescale = old == -INFINITY ? 0.0f : Exp(old - now);
    tile.rescale[r] = rescale * PowerOfTwo(before - unit);
    tile.largest[r] = now;
    tile.total[r] = tile.total[r] * rescale + total;
  }
  return unit;
}
}  // namespace
}  // namespace deltafin::cuda
