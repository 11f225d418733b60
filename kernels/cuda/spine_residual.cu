// Attention residuals: what pends is added to the prefix, then the snapshots
// and the prefix are mixed, normalised and prepared (docs/model.md 4.2). A
// cluster of blocks shares a token where the card has clusters.
#include <cooperative_groups.h>

#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kCluster = 8;
constexpr int kMaxCandidates = ResidualCall::kMaxSnapshots + 1;
constexpr int kSums = 2 * kMaxCandidates;
constexpr int kBatch = 4;  // candidates whose loads are under way at once

// Blocks of a token and this one's place among them; sums over all of them.
struct Team {
  int size = 1;
  int rank = 0;
};

__device__ Team FindTeam() {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  const cg::cluster_group cluster = cg::this_cluster();
  return {static_cast<int>(cluster.num_blocks()),
          static_cast<int>(cluster.block_rank())};
#else
  return {};
#endif
}

// out[i] = the sum over the team's blocks of mine[i], i < count, in the order
// of ranks. Both in shared memory; barriers before and behind.
__device__ void TeamSum(const Team& team, float* mine, int count, float* out) {
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  for (int i = threadIdx.x; i < count; i += kThreads) {
    float sum = 0;
    for (int r = 0; r < team.size; ++r) {
      sum += cluster.map_shared_rank(mine, r)[i];
    }
    out[i] = sum;
  }
  cluster.sync();
#else
  for (int i = threadIdx.x; i < count; i += kThreads) out[i] = mine[i];
#endif
  __syncthreads();
}

__device__ float4 Load4(const float* row, int column, int width) {
  if (column >= width) return {0, 0, 0, 0};
  return *reinterpret_cast<const float4*>(row + column);
}

__device__ float4 UpdatedPrefix(const ResidualCall& call, int token,
                                int column) {
  const float4 old =
      Load4(call.prefix + size_t(token) * call.hidden, column, call.hidden);
  const PendingSum& pending = call.pending;
  if (pending.count == 0 || column >= call.hidden) return old;
  float4 sum = ProductSum4(pending.products[0], token, column);
  if (pending.count > 1) {
    const float4 more = ProductSum4(pending.products[1], token, column);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  if (pending.starts) return sum;
  return {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
}

__device__ float4 Candidate(const ResidualCall& call, int index, int token,
                            int column) {
  const float* rows =
      index < call.num_snapshots ? call.snapshots[index] : call.prefix;
  return Load4(rows + size_t(token) * call.hidden, column, call.hidden);
}

__device__ float Dot4(const float4& a, const float4& b) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)));
}

struct Shared {
  float warp_sums[kWarps][kSums];
  float block_sums[kSums];
  float sums[kSums];
  float weights[kMaxCandidates];
};

// sums[2j], sums[2j + 1]: squares of candidate j, its product with the mix
// weights. Also writes the prefix.
__device__ void SumCandidates(const ResidualCall& call, const Team& team,
                              int token, Shared& shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = PreparedChunks(call.hidden);
  const int candidates = call.num_snapshots + 1;
  for (int i = lane; i < kSums; i += 32) shared.warp_sums[warp][i] = 0;
  __syncwarp();
  for (int chunk = team.rank * kWarps + warp; chunk < chunks;
       chunk += team.size * kWarps) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    const float4 prefix = UpdatedPrefix(call, token, column);
    const size_t at = size_t(token) * call.hidden + column;
    if (column < call.hidden) {
      *reinterpret_cast<float4*>(call.prefix + at) = prefix;
      if (call.next_snapshot != nullptr) {
        *reinterpret_cast<float4*>(call.next_snapshot + at) = prefix;
      }
    }
    if (call.num_snapshots == 0) continue;
    const float4 mix = Load4(call.mix, column, call.hidden);
    for (int j = 0; j < candidates; ++j) {
      const float4 v =
          j == call.num_snapshots ? prefix : Candidate(call, j, token, column);
      const float squares = WarpSum(Dot4(v, v));
      const float product = WarpSum(Dot4(v, mix));
      if (lane == 0) {
        shared.warp_sums[warp][2 * j] += squares;
        shared.warp_sums[warp][2 * j + 1] += product;
      }
    }
  }
}

// Softmax weights of the candidates in shared.weights.
__device__ void WeighCandidates(const ResidualCall& call, const Team& team,
                                Shared& shared) {
  const int candidates = call.num_snapshots + 1;
  __syncthreads();
  if (threadIdx.x < 2 * candidates) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared.warp_sums[w][threadIdx.x];
    shared.block_sums[threadIdx.x] = sum;
  }
  TeamSum(team, shared.block_sums, 2 * candidates, shared.sums);
  if (threadIdx.x == 0) {
    float largest = -INFINITY;
    for (int j = 0; j < candidates; ++j) {
      const float mean = shared.sums[2 * j] / static_cast<float>(call.hidden);
      const float score = shared.sums[2 * j + 1] / sqrtf(mean + call.eps);
      shared.weights[j] = score;
      largest = largest < score ? score : largest;
    }
    float total = 0;
    for (int j = 0; j < candidates; ++j) {
      shared.weights[j] = Exp(shared.weights[j] - largest);
      total += shared.weights[j];
    }
    for (int j = 0; j < candidates; ++j) shared.weights[j] /= total;
  }
  __syncthreads();
}

__device__ float4 Mixture(const ResidualCall& call, const Shared& shared,
                          int token, int column) {
  if (call.num_snapshots == 0) {
    return Candidate(call, 0, token, column);
  }
  float4 sum = {0, 0, 0, 0};
  for (int first = 0; first <= call.num_snapshots; first += kBatch) {
    float4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      v[i] = Candidate(call, min(first + i, call.num_snapshots), token, column);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i > call.num_snapshots) continue;
      const float w = shared.weights[first + i];
      sum = {fmaf(w, v[i].x, sum.x), fmaf(w, v[i].y, sum.y),
             fmaf(w, v[i].z, sum.z), fmaf(w, v[i].w, sum.w)};
    }
  }
  return sum;
}

// mixed: [rounds][kWarps][128] floats of dynamic shared memory.
__global__ void __launch_bounds__(kThreads)
    ResidualKernel(const ResidualCall call) {
  extern __shared__ float4 mixed[];
  __shared__ Shared shared;
  WaitForWork();
  const Team team = FindTeam();
  const int token = blockIdx.y;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = PreparedChunks(call.hidden);
  SumCandidates(call, team, token, shared);
  if (call.norm == nullptr) return;
  if (call.num_snapshots > 0) WeighCandidates(call, team, shared);
  float squares = 0;
  float4* mine = mixed + threadIdx.x;
  for (int chunk = team.rank * kWarps + warp; chunk < chunks;
       chunk += team.size * kWarps, mine += kThreads) {
    *mine = Mixture(call, shared, token, chunk * kPreparedColumns + 4 * lane);
    squares += Dot4(*mine, *mine);
  }
  const float block_squares = BlockSum(squares, shared.warp_sums[0]);
  __syncthreads();
  if (threadIdx.x == 0) shared.block_sums[0] = block_squares;
  TeamSum(team, shared.block_sums, 1, shared.sums);
  const float inverse =
      1.0f / sqrtf(shared.sums[0] / static_cast<float>(call.hidden) + call.eps);
  mine = mixed + threadIdx.x;
  for (int chunk = team.rank * kWarps + warp; chunk < chunks;
       chunk += team.size * kWarps, mine += kThreads) {
    const float4 norm =
        Load4(call.norm, chunk * kPreparedColumns + 4 * lane, call.hidden);
    const float v[4] = {mine->x * inverse * norm.x, mine->y * inverse * norm.y,
                        mine->z * inverse * norm.z, mine->w * inverse * norm.w};
    PrepareChunk(call.out, token, chunk, v);
  }
}

}  // namespace

cudaError_t LaunchResidual(const SpineTarget& target,
                           const ResidualCall& call) {
  const int cluster = target.hopper ? kCluster : 1;
  const int warps = cluster * kWarps;
  const int rounds = (PreparedChunks(call.hidden) + warps - 1) / warps;
  const size_t shared_bytes = size_t{16} * kThreads * rounds;
  return LaunchSpine(target, ResidualKernel, dim3(cluster, call.num_tokens),
                     kThreads, shared_bytes, call, cluster);
}

}  // namespace deltafin::cuda
