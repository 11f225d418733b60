// Scores and sums of latent attention: a block has 32 (token, head) rows and a
// run of positions, tile by tile, with the largest score seen so far. The
// blocks' parts are joined by MlaValuesKernel in the order of positions.
#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 32;       // (token, head) rows of a block
constexpr int kPositions = 32;  // of a tile
constexpr int kMaxLatent = 512;
constexpr int kScoreStride = 36;  // floats of a row of scores
constexpr int kKeyParts = 4;      // of the keys' columns, each two warps'
constexpr int kMaxGroups = 9;     // of 16 columns in a part
constexpr int kWarpColumns = 64;  // latents that a warp sums
constexpr int kMaxSplits = 64;

struct AttendCall {
  MlaCall call;
  int splits = 1;
  int key_stride = 0;  // floats of a row in shared memory
  int buffers = 1;     // tiles there: the next one comes while one is used
};

struct Rows {
  // A part of the columns each; then the first one has the weights.
  float scores[kKeyParts][kRows][kScoreStride];
  float largest[kRows];
  float total[kRows];
  float rescale[kRows];
};

// Starts copying rows of `width` floats to shared memory, as one group of
// copies, with zeros up to 16 columns; the last row stands for those beyond.
__device__ void CopyRows(const float* from, int count, int rows, int width,
                         int stride, float* to) {
  for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
    const float* source = from + size_t(min(row, count - 1)) * width;
    for (int i = 4 * (threadIdx.x % 32); i < (width + 15) / 16 * 16; i += 128) {
      const uint32_t address = static_cast<uint32_t>(
          __cvta_generic_to_shared(to + row * stride + i));
      const int bytes = i < width ? 16 : 0;
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address),
          "l"(source + (i < width ? i : 0)), "r"(bytes));
    }
  }
  asm volatile("cp.async.commit_group;");
}

// A float as the sum of two that the matrix unit takes: it reads the upper 19
// bits of each.
struct Halves {
  uint32_t high;
  uint32_t low;
};

__device__ __forceinline__ Halves Halve(float f) {
  const uint32_t high = BitsOf(f) & 0xffffe000u;
  return {high, BitsOf(f - FloatOf(high))};
}

__device__ __forceinline__ void MultiplyTf32(float c[4], const uint32_t a[4],
                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The left operand: rows g, g + 8; columns c, c + 4.
struct LeftOperand {
  uint32_t high[4];
  uint32_t low[4];
};

__device__ __forceinline__ LeftOperand Left(float a0, float a1, float a2,
                                            float a3) {
  const Halves h[4] = {Halve(a0), Halve(a1), Halve(a2), Halve(a3)};
  return {{h[0].high, h[1].high, h[2].high, h[3].high},
          {h[0].low, h[1].low, h[2].low, h[3].low}};
}

// c += a b but for the product of the low halves.
__device__ __forceinline__ void MultiplyFloats(float c[4], const LeftOperand& a,
                                               float b0, float b1) {
  const Halves h0 = Halve(b0), h1 = Halve(b1);
  MultiplyTf32(c, a.low, h0.high, h1.high);
  MultiplyTf32(c, a.high, h0.low, h1.low);
  MultiplyTf32(c, a.high, h0.high, h1.high);
}

// The columns of a warp's part, in groups of 16.
struct Part {
  int first;
  int count;
};

__device__ Part PartOf(int width) {
  const int groups = (width + 15) / 16, part = threadIdx.x / 64;
  const int first = groups * part / kKeyParts;
  return {first, groups * (part + 1) / kKeyParts - first};
}

// The warp's 16 rows of its part, as left operands take them: lane (g, c) has
// columns 4c..4c+3 of every group, of rows g and g + 8.
struct Queries {
  float4 low[kMaxGroups];
  float4 high[kMaxGroups];
};

__device__ Queries FetchQueries(const float* rows, int count, int width,
                                const Part& part) {
  const int lane = threadIdx.x % 32;
  const int row = threadIdx.x / 32 % 2 * 16 + lane / 4;
  const float* low = rows + size_t(min(row, count - 1)) * width;
  const float* high = rows + size_t(min(row + 8, count - 1)) * width;
  Queries queries;
#pragma unroll
  for (int i = 0; i < kMaxGroups; ++i) {
    const int column = 16 * (part.first + i) + 4 * (lane % 4);
    queries.low[i] = queries.high[i] = {0, 0, 0, 0};
    if (i >= part.count || column >= width) continue;
    queries.low[i] = *reinterpret_cast<const float4*>(low + column);
    queries.high[i] = *reinterpret_cast<const float4*>(high + column);
  }
  return queries;
}

// The part's share of the scores of 16 rows and all positions of the tile.
__device__ void Score(const Queries& queries, const Part& part, const float* k,
                      int stride, float scale, Rows& rows) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[4][4] = {};
  const float* keys = k + lane / 4 * stride + 16 * part.first + 4 * (lane % 4);
#pragma unroll
  for (int i = 0; i < kMaxGroups; ++i) {
    if (i >= part.count) continue;
    const float4 &low = queries.low[i], &high = queries.high[i];
    const LeftOperand first = Left(low.x, high.x, low.y, high.y);
    const LeftOperand second = Left(low.z, high.z, low.w, high.w);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float4 key =
          *reinterpret_cast<const float4*>(keys + 8 * n * stride + 16 * i);
      MultiplyFloats(sums[n], first, key.x, key.y);
      MultiplyFloats(sums[n], second, key.z, key.w);
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = 16 * (warp % 2) + lane / 4 + 8 * (i / 2);
      rows.scores[warp / 2][r][8 * n + 2 * (lane % 4) + i % 2] =
          sums[n][i] * scale;
    }
  }
}

// Positions that a row sees: those up to its own token.
__device__ int64_t Seen(const MlaSlice& slice, int heads, int row) {
  return slice.position + row / heads + 1;
}

// Scores become weights; a warp four rows. `first`: position of the tile.
__device__ void Weigh(const MlaSlice& slice, int heads, int first_row,
                      int64_t first, int64_t end, Rows& rows) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = 4 * warp + i;
    const int64_t seen = min(Seen(slice, heads, first_row + r), end);
    const bool visible = first + lane < seen;
    float score = rows.scores[0][r][lane];
    for (int p = 1; p < kKeyParts; ++p) score += rows.scores[p][r][lane];
    if (!visible) score = -INFINITY;
    float largest = score;
    for (int step = 16; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    const float before = rows.largest[r];
    const float now = fmaxf(before, largest);
    // NaN must pass on: fmaxf drops it, the weight below does not.
    const float weight = visible ? Exp(score - now) : 0.0f;
    const float total = WarpSum(weight);
    __syncwarp();  // all lanes have read rows.largest
    rows.scores[0][r][lane] = weight;
    if (lane == 0) {
      const float rescale = before == -INFINITY ? 0.0f : Exp(before - now);
      rows.rescale[r] = rescale;
      rows.largest[r] = now;
      rows.total[r] = rows.total[r] * rescale + total;
    }
  }
}

// Sums of the warp's latents for all rows: column 4n + j of half h is column n
// of product [h][j], so that a lane reads and stores four neighbours.
struct Sums {
  float value[2][2][4][4] = {};  // [16 rows][half][j]
};

__device__ void Rescale(const Rows& rows, Sums& sums) {
  const int g = threadIdx.x % 32 / 4;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const float low = rows.rescale[16 * m + g];
    const float high = rows.rescale[16 * m + g + 8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float* v = sums.value[m][i / 4][i % 4];
      v[0] *= low;
      v[1] *= low;
      v[2] *= high;
      v[3] *= high;
    }
  }
}

__device__ __forceinline__ LeftOperand ReadWeights(const Rows& rows, int m,
                                                   int step) {
  const int lane = threadIdx.x % 32;
  const float* low = &rows.scores[0][16 * m + lane / 4][8 * step + lane % 4];
  const float* high = low + 8 * kScoreStride;
  return Left(low[0], high[0], low[4], high[4]);
}

__device__ void AddValues(const float* k, int latent, int stride,
                          const Rows& rows, Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Rescale(rows, sums);
#pragma unroll
  for (int step = 0; step < kPositions / 8; ++step) {
    const LeftOperand weights[2] = {ReadWeights(rows, 0, step),
                                    ReadWeights(rows, 1, step)};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = kWarpColumns * warp + 32 * h + 4 * (lane / 4);
      float4 v[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (column >= latent) continue;
        v[i] = *reinterpret_cast<const float4*>(
            k + (8 * step + 4 * i + lane % 4) * stride + column);
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        auto& out = sums.value[m][h];
        MultiplyFloats(out[0], weights[m], v[0].x, v[1].x);
        MultiplyFloats(out[1], weights[m], v[0].y, v[1].y);
        MultiplyFloats(out[2], weights[m], v[0].z, v[1].z);
        MultiplyFloats(out[3], weights[m], v[0].w, v[1].w);
      }
    }
  }
}

__device__ void StoreParts(const MlaCall& call, const MlaSlice& slice,
                           int first_row, int num_rows, int split,
                           const Rows& rows, const Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t base =
      (split * size_t(call.num_tokens) + slice.first_row) * call.heads;
  if (threadIdx.x < kRows && first_row + threadIdx.x < num_rows) {
    float* stats = call.stats + 2 * (base + first_row + threadIdx.x);
    stats[0] = rows.largest[threadIdx.x];
    stats[1] = rows.total[threadIdx.x];
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {  // rows of 16, half, upper rows, columns
    const int m = i / 8, h = i / 4 % 2, upper = i / 2 % 2, n = i % 2;
    const int r = 16 * m + 8 * upper + lane / 4;
    const int column = kWarpColumns * warp + 32 * h + 8 * (lane % 4) + 4 * n;
    if (first_row + r >= num_rows || column >= call.latent) continue;
    const auto& v = sums.value[m][h];
    const int at = 2 * upper + n;
    *reinterpret_cast<float4*>(call.parts +
                               (base + first_row + r) * call.latent + column) =
        float4{v[0][at], v[1][at], v[2][at], v[3][at]};
  }
}

__global__ void __launch_bounds__(kThreads)
    MlaAttendKernel(__grid_constant__ const AttendCall attend) {
  extern __shared__ float4 memory[];
  __shared__ Rows rows;
  const MlaCall& call = attend.call;
  const MlaSlice& slice = call.slices[blockIdx.z];
  const int num_rows = slice.count * call.heads;
  const int first_row = blockIdx.x * kRows;
  WaitForWork();
  if (first_row >= num_rows) return;
  const int width = call.latent + call.rope, stride = attend.key_stride;
  float* tiles_memory = reinterpret_cast<float*>(memory);
  if (threadIdx.x < kRows) {
    rows.largest[threadIdx.x] = -INFINITY;
    rows.total[threadIdx.x] = 0;
  }
  const int64_t positions = slice.position + slice.count;
  const int64_t tiles = (positions + kPositions - 1) / kPositions;
  const int64_t begin = tiles * blockIdx.y / attend.splits * kPositions;
  const int64_t end =
      min(positions, tiles * (blockIdx.y + 1) / attend.splits * kPositions);
  Sums sums;
  const auto fetch = [&](int64_t at) {
    const int count = static_cast<int>(min(int64_t{kPositions}, end - at));
    const int64_t tile = (at - begin) / kPositions;
    CopyRows(slice.rows + at * width, count, at < end ? kPositions : 0, width,
             stride,
             tiles_memory + tile % attend.buffers * kPositions * stride);
  };
  const int ahead = attend.buffers - 1;
  if (ahead > 0) fetch(begin);
  const Part part = PartOf(width);
  const Queries queries = FetchQueries(
      call.queries + (size_t(slice.first_row) * call.heads + first_row) * width,
      min(kRows, num_rows - first_row), width, part);
  for (int64_t at = begin; at < end; at += kPositions) {
    fetch(at + ahead * kPositions);
    if (ahead > 0) {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    const float* k = tiles_memory + (at - begin) / kPositions % attend.buffers *
                                        kPositions * stride;
    Score(queries, part, k, stride, call.scale, rows);
    __syncthreads();
    Weigh(slice, call.heads, first_row, at, end, rows);
    __syncthreads();
    AddValues(k, call.latent, stride, rows, sums);
    __syncthreads();
  }
  StoreParts(call, slice, first_row, num_rows, blockIdx.y, rows, sums);
}

// Rows begin in other halves of the banks, and have whole groups of 16 columns.
int KeyStride(int key_dim) { return (key_dim + 31) / 32 * 32 + 16; }

int RowTiles(const MlaCall& call) {
  int tiles = 0;
  for (int s = 0; s < call.num_slices; ++s) {
    tiles += (call.slices[s].count * call.heads + kRows - 1) / kRows;
  }
  return tiles;
}

}  // namespace

int MlaSplits(const SpineTarget& target, const MlaCall& call) {
  int64_t positions = 1;
  for (int s = 0; s < call.num_slices; ++s) {
    const int64_t end = call.slices[s].position + call.slices[s].count;
    positions = end > positions ? end : positions;
  }
  const int64_t tiles = (positions + kPositions - 1) / kPositions;
  const int64_t part = int64_t{call.num_tokens} * call.heads * call.latent;
  const int64_t bounds[] = {tiles, target.multiprocessors / RowTiles(call),
                            kMaxSplits, call.parts_floats / part};
  int64_t splits = bounds[0];
  for (const int64_t bound : bounds) splits = bound < splits ? bound : splits;
  return static_cast<int>(splits < 1 ? 1 : splits);
}

size_t MlaAttendBytes(int key_dim, int buffers) {
  return sizeof(float) * buffers * kPositions * KeyStride(key_dim) +
         sizeof(Rows);
}

cudaError_t LaunchMlaAttend(const SpineTarget& target, const MlaCall& call) {
  if (call.latent > kMaxLatent) return cudaErrorInvalidValue;
  const int key_dim = call.latent + call.rope;
  const int buffers = MlaAttendBytes(key_dim, 2) <= target.shared_bytes ? 2 : 1;
  const AttendCall attend = {call, MlaSplits(target, call), KeyStride(key_dim),
                             buffers};
  const size_t bytes = MlaAttendBytes(key_dim, buffers) - sizeof(Rows);
  const cudaError_t allowed = cudaFuncSetAttribute(
      MlaAttendKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes));
  if (allowed != cudaSuccess) return allowed;
  int most = 0;
  for (int s = 0; s < call.num_slices; ++s) {
    most = call.slices[s].count > most ? call.slices[s].count : most;
  }
  const int row_tiles = (most * call.heads + kRows - 1) / kRows;
  return LaunchSpine(target, MlaAttendKernel,
                     dim3(row_tiles, attend.splits, call.num_slices), kThreads,
                     bytes, attend);
}

}  // namespace deltafin::cuda
