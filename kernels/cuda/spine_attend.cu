// Scores and sums of latent attention: a block has 32 (token, head) rows and a
// run of positions, tile by tile, with the largest score seen so far. The
// blocks' parts are joined by MlaValuesKernel in the order of positions.
//
// Products are those of the matrix unit for fp16, each float as two halves
// (spine_halves.cuh), after a power of two brought the largest value of a row
// to 2^12..2^13; only the product of the low halves is left out.
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
constexpr int kMaxSplits = 64;
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

// Sums of the warp's latents for all rows: [16 rows][8 columns].
struct Sums {
  float value[2][kWarpColumns / 8][4] = {};
};

template <int kPositions>
__device__ void Rescale(const Tile<kPositions>& tile, Sums& sums) {
  const int g = threadIdx.x % 32 / 4;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const float upper = tile.rescale[16 * m + g];
    const float lower = tile.rescale[16 * m + g + 8];
#pragma unroll
    for (auto& v : sums.value[m]) {
      v[0] *= upper;
      v[1] *= upper;
      v[2] *= lower;
      v[3] *= lower;
    }
  }
}

template <int kPositions>
__device__ void AddValues(int latent, int stride, const uint16_t* high,
                          const uint16_t* low, const Tile<kPositions>& tile,
                          Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = kWarpColumns * warp;
  if (column >= latent) return;
  Rescale(tile, sums);
#pragma unroll
  for (int step = 0; step < kPositions / kStep; ++step) {
    // Matrices of weights: rows 0..7 and 8..15, then the next eight positions.
    const int weights_at = lane / 16 * 8 + kStep * step;
    uint32_t w[2][2][4];  // [high, low][16 rows]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      LoadMatrices(&tile.weights[i / 2][16 * (i % 2) + lane % 16][weights_at],
                   w[i / 2][i % 2]);
    }
    // Of values: positions 0..7 and 8..15, then the next eight columns.
    const int at = (kStep * step + lane % 16) * stride + column + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < kWarpColumns / 8; n += 2) {
      uint32_t h[4], l[4];
      LoadTransposed(high + at + 8 * n, h);
      LoadTransposed(low + at + 8 * n, l);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        float* first = sums.value[m][n];
        float* second = sums.value[m][n + 1];
        MultiplyHalves(first, w[1][m], h);
        MultiplyHalves(second, w[1][m], h + 2);
        MultiplyHalves(first, w[0][m], l);
        MultiplyHalves(second, w[0][m], l + 2);
        MultiplyHalves(first, w[0][m], h);
        MultiplyHalves(second, w[0][m], h + 2);
      }
    }
  }
}

template <int kPositions>
__device__ void StoreParts(const MlaCall& call, const MlaSlice& slice,
                           int first_row, int num_rows, int split, int unit,
                           const Tile<kPositions>& tile, const Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t base =
      (split * size_t(call.num_tokens) + slice.first_row) * call.heads;
  if (threadIdx.x < kRows && first_row + threadIdx.x < num_rows) {
    float* stats = call.stats + 2 * (base + first_row + threadIdx.x);
    stats[0] = tile.largest[threadIdx.x];
    stats[1] = tile.total[threadIdx.x];
  }
  const float scale = PowerOfTwo(unit - kWeightExponent);
#pragma unroll
  for (int i = 0; i < 4 * (kWarpColumns / 8); ++i) {
    const int m = i / 2 % 2, lower = i % 2, n = i / 4;
    const int row = first_row + 16 * m + 8 * lower + lane / 4;
    const int column = kWarpColumns * warp + 8 * n + 2 * (lane % 4);
    if (row >= num_rows || column >= call.latent) continue;
    const float* v = sums.value[m][n] + 2 * lower;
    *reinterpret_cast<float2*>(call.parts + (base + row) * call.latent +
                               column) = float2{v[0] * scale, v[1] * scale};
  }
}

// The block's rows and positions, of which there are some.
template <int kPositions>
__device__ void AttendRows(const AttendCall& attend, const MlaSlice& slice,
                           int first_row, int num_rows) {
  extern __shared__ float4 memory[];
  const MlaCall& call = attend.call;
  const int width = call.latent + call.rope, stride = attend.stride;
  auto& tile = *reinterpret_cast<Tile<kPositions>*>(memory);
  auto* high = reinterpret_cast<uint16_t*>(&tile + 1);
  uint16_t* low = high + kPositions * stride;
  auto* raw = reinterpret_cast<float*>(low + kPositions * stride);
  const int64_t positions = slice.position + slice.count;
  const int64_t tiles = (positions + kPositions - 1) / kPositions;
  const int64_t begin = tiles * blockIdx.y / attend.splits * kPositions;
  const int64_t end =
      min(positions, tiles * (blockIdx.y + 1) / attend.splits * kPositions);
  if (threadIdx.x < kRows) {
    // Up to its own token.
    const int token = (first_row + static_cast<int>(threadIdx.x)) / call.heads;
    tile.seen[threadIdx.x] = min(slice.position + token + 1, end);
    tile.largest[threadIdx.x] = -INFINITY;
    tile.total[threadIdx.x] = 0;
  }
  const auto count_at = [&](int64_t at) {
    return at < end ? static_cast<int>(min(int64_t{kPositions}, end - at)) : 0;
  };
  CopyRows(slice.rows + begin * width, count_at(begin), width, raw);
  const Part part = PartOf(attend.width);
  const Queries queries = FetchQueries(
      call,
      call.queries + (size_t(slice.first_row) * call.heads + first_row) * width,
      min(kRows, num_rows - first_row), part, tile);
  Sums sums;
  int unit = kLeastHalvesExponent;
#pragma unroll 1
  for (int64_t at = begin; at < end; at += kPositions) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    SplitKeys(attend, raw, count_at(at), high, low, tile);
    __syncthreads();
    const int64_t next = at + kPositions;
    CopyRows(slice.rows + next * width, count_at(next), width, raw);
    Score(queries, part, stride, high, low, tile);
    __syncthreads();
    unit = Weigh(at, unit, tile);
    __syncthreads();
    AddValues(call.latent, stride, high, low, tile, sums);
  }
  StoreParts(call, slice, first_row, num_rows, blockIdx.y, unit, tile, sums);
}

template <int kPositions>
__global__ void __launch_bounds__(kThreads)
    MlaAttendKernel(__grid_constant__ const AttendCall attend) {
  const MlaCall& call = attend.call;
  const MlaSlice& slice = call.slices[blockIdx.z];
  const int num_rows = slice.count * call.heads;
  const int first_row = blockIdx.x * kRows;
  if (!attend.early) WaitForWork();
  // What comes next reads nothing of this launch or of the one before.
  LetNextCome();
  if (first_row < num_rows) {
    AttendRows<kPositions>(attend, slice, first_row, num_rows);
  }
  if (attend.early) WaitForWork();
}

int RoundUp(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Rows lie 16 bytes further along the banks each, and have whole columns of a
// warp.
int KeyStride(int latent, int rope) {
  const int whole = RoundUp(latent, kWarpColumns);
  const int width = RoundUp(latent + rope, kStep);
  return RoundUp(whole > width ? whole : width, 64) + 8;
}

template <int kPositions>
size_t SharedBytes(int latent, int rope) {
  return sizeof(Tile<kPositions>) +
         size_t{4} * kPositions * (KeyStride(latent, rope) + latent + rope);
}

// Where the card has room.
constexpr int kManyPositions = 32;
constexpr int kFewPositions = 16;

int TilePositions(const SpineTarget& target, const MlaCall& call) {
  const size_t wanted = SharedBytes<kManyPositions>(call.latent, call.rope);
  return wanted <= target.shared_bytes ? kManyPositions : kFewPositions;
}

int RowTiles(const MlaCall& call) {
  int tiles = 0;
  for (int s = 0; s < call.num_slices; ++s) {
    tiles += (call.slices[s].count * call.heads + kRows - 1) / kRows;
  }
  return tiles;
}

template <int kPositions>
cudaError_t Launch(const SpineTarget& target, const AttendCall& attend) {
  const MlaCall& call = attend.call;
  const size_t bytes = SharedBytes<kPositions>(call.latent, call.rope);
  const cudaError_t allowed = cudaFuncSetAttribute(
      MlaAttendKernel<kPositions>, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes));
  if (allowed != cudaSuccess) return allowed;
  int most = 0;
  for (int s = 0; s < call.num_slices; ++s) {
    most = call.slices[s].count > most ? call.slices[s].count : most;
  }
  const int row_tiles = (most * call.heads + kRows - 1) / kRows;
  return LaunchSpine(target, MlaAttendKernel<kPositions>,
                     dim3(row_tiles, attend.splits, call.num_slices), kThreads,
                     bytes, attend);
}

}  // namespace

int MlaSplits(const SpineTarget& target, const MlaCall& call) {
  int64_t positions = 1;
  for (int s = 0; s < call.num_slices; ++s) {
    const int64_t end = call.slices[s].position + call.slices[s].count;
    positions = end > positions ? end : positions;
  }
  const int tile = TilePositions(target, call);
  const int64_t tiles = (positions + tile - 1) / tile;
  const int64_t part = int64_t{call.num_tokens} * call.heads * call.latent;
  const int64_t bounds[] = {tiles, target.multiprocessors / RowTiles(call),
                            kMaxSplits, call.parts_floats / part};
  int64_t splits = bounds[0];
  for (const int64_t bound : bounds) splits = bound < splits ? bound : splits;
  return static_cast<int>(splits < 1 ? 1 : splits);
}

size_t MlaAttendBytes(int latent, int rope) {
  return SharedBytes<kFewPositions>(latent, rope);
}

cudaError_t LaunchMlaAttend(const SpineTarget& target, const MlaCall& call,
                            bool early) {
  if (call.latent > kMaxLatent || call.latent + call.rope > kMaxWidth) {
    return cudaErrorInvalidValue;
  }
  const AttendCall attend = {call, MlaSplits(target, call),
                             RoundUp(call.latent + call.rope, kStep),
                             KeyStride(call.latent, call.rope), early};
  return TilePositions(target, call) == kManyPositions
             ? Launch<kManyPositions>(target, attend)
             : Launch<kFewPositions>(target, attend);
}

}  // namespace deltafin::cuda
