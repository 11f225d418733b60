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
constexpr int kRowsPerThread = 8;
constexpr int kMaxSplits = 64;

struct AttendCall {
  MlaCall call;
  int splits = 1;
  int key_stride = 0;  // floats of a row in shared memory
  int buffers = 1;     // tiles there: the next one comes while one is used
};

struct Rows {
  float scores[kPositions][kRows];
  float largest[kRows];
  float total[kRows];
  float rescale[kRows];
};

// Starts copying rows of `width` floats to shared memory, as one group of
// copies; the last one stands for those beyond.
__device__ void CopyRows(const float* from, int count, int rows, int width,
                         int stride, float* to) {
  for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
    const float* source = from + size_t(min(row, count - 1)) * width;
    for (int i = 4 * (threadIdx.x % 32); i < width; i += 128) {
      const uint32_t address = static_cast<uint32_t>(
          __cvta_generic_to_shared(to + row * stride + i));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address),
                   "l"(source + i));
    }
  }
  asm volatile("cp.async.commit_group;");
}

__device__ float Dot(const float4& a, const float4& b, float sum) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

// scores[p][r] for rows r = 2a, 2a + 1 and positions p = b, b + 16 of thread
// 16 a + b.
__device__ void Score(const float* q, const float* k, int width, int stride,
                      float scale, Rows& rows) {
  const int r = threadIdx.x / 16 * 2, p = threadIdx.x % 16;
  float sums[2][2] = {};
  for (int v = 0; v < width / 4; ++v) {
    const auto at = [v, stride](const float* base, int row) {
      return reinterpret_cast<const float4*>(base + row * stride)[v];
    };
    const float4 q0 = at(q, r), q1 = at(q, r + 1);
    const float4 k0 = at(k, p), k1 = at(k, p + 16);
    sums[0][0] = Dot(q0, k0, sums[0][0]);
    sums[0][1] = Dot(q0, k1, sums[0][1]);
    sums[1][0] = Dot(q1, k0, sums[1][0]);
    sums[1][1] = Dot(q1, k1, sums[1][1]);
  }
  for (int i = 0; i < 4; ++i) {
    rows.scores[p + 16 * (i % 2)][r + i / 2] = sums[i / 2][i % 2] * scale;
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
  for (int r = 4 * warp; r < 4 * warp + 4; ++r) {
    const int64_t seen = min(Seen(slice, heads, first_row + r), end);
    const bool visible = first + lane < seen;
    const float score = visible ? rows.scores[lane][r] : -INFINITY;
    float largest = score;
    for (int step = 16; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    const float before = rows.largest[r];
    const float now = fmaxf(before, largest);
    // NaN must pass on: fmaxf drops it, the weight below does not.
    const float weight = visible ? Exp(score - now) : 0.0f;
    const float total = WarpSum(weight);
    __syncwarp();
    rows.scores[lane][r] = weight;
    if (lane == 0) {
      const float rescale = before == -INFINITY ? 0.0f : Exp(before - now);
      rows.rescale[r] = rescale;
      rows.largest[r] = now;
      rows.total[r] = rows.total[r] * rescale + total;
    }
  }
}

// Latents 4 lane .. and 128 + 4 lane .. of the thread's half, eight rows.
struct Sums {
  float4 value[kRowsPerThread][2] = {};
};

__device__ void AddScaled(float4& sum, float w, const float4& v) {
  sum = {fmaf(w, v.x, sum.x), fmaf(w, v.y, sum.y), fmaf(w, v.z, sum.z),
         fmaf(w, v.w, sum.w)};
}

__device__ void AddValues(const float* k, int latent, int stride,
                          const Rows& rows, Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int r = warp % 4 * kRowsPerThread;
  const int column = warp / 4 * (kMaxLatent / 2) + 4 * lane;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const float s = rows.rescale[r + i];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float4& v = sums.value[i][h];
      v = {v.x * s, v.y * s, v.z * s, v.w * s};
    }
  }
  for (int p = 0; p < kPositions; ++p) {
    float4 v[2] = {};
    for (int h = 0; h < 2; ++h) {
      if (column + 128 * h >= latent) continue;
      v[h] =
          *reinterpret_cast<const float4*>(k + p * stride + column + 128 * h);
    }
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
      const float w = rows.scores[p][r + i];
      AddScaled(sums.value[i][0], w, v[0]);
      AddScaled(sums.value[i][1], w, v[1]);
    }
  }
}

__device__ void StoreParts(const MlaCall& call, const MlaSlice& slice,
                           int first_row, int num_rows, int split,
                           const Rows& rows, const Sums& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = warp / 4 * (kMaxLatent / 2) + 4 * lane;
  const size_t all = size_t(call.num_tokens) * call.heads;
  const size_t base = split * all + size_t(slice.first_row) * call.heads;
#pragma unroll
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int r = warp % 4 * kRowsPerThread + i;
    if (first_row + r >= num_rows) break;
    const size_t row = base + first_row + r;
    if (column == 0) {
      call.stats[2 * row] = rows.largest[r];
      call.stats[2 * row + 1] = rows.total[r];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int c = column + 128 * h;
      if (c >= call.latent) continue;
      *reinterpret_cast<float4*>(call.parts + row * call.latent + c) =
          sums.value[i][h];
    }
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
  float* q = reinterpret_cast<float*>(memory);
  float* tiles_memory = q + kRows * stride;
  const int left = min(kRows, num_rows - first_row);
  CopyRows(
      call.queries + (size_t(slice.first_row) * call.heads + first_row) * width,
      left, kRows, width, stride, q);
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
    Score(q, k, width, stride, call.scale, rows);
    __syncthreads();
    Weigh(slice, call.heads, first_row, at, end, rows);
    __syncthreads();
    AddValues(k, call.latent, stride, rows, sums);
    __syncthreads();
  }
  StoreParts(call, slice, first_row, num_rows, blockIdx.y, rows, sums);
}

// Four floats more than a multiple of 32: rows begin in other banks.
int KeyStride(int key_dim) { return (key_dim + 31) / 32 * 32 + 4; }

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
  return sizeof(float) * (kRows + buffers * kPositions) * KeyStride(key_dim) +
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
