// Scores and sums of latent attention: a block has 32 (token, head) rows and a
// run of positions, tile by tile, with the largest score seen so far. The
// blocks' parts are joined by MlaValuesKernel in the order of positions.
//
// Products are those of the matrix unit for fp16, each float as two halves
// (spine_halves.cuh), after a power of two brought the largest value of a row
// to 2^12..2^13; only the product of the low halves is left out.
#include "kernels/cuda/spine_attend_scores.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kMaxSplits = 64;

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
