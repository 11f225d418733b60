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
constexpr int kHeld = 8;  // snapshots in registers

struct Shared {
  float warp_sums[kWarps][2 * kMaxCandidates];
  // What the other blocks of the token read.
  float block_sums[2 * kMaxCandidates];
  float block_squares;
  float scratch[32];
};

__device__ float4 Load4(const float* row, int column, int width) {
  if (column >= width) return {0, 0, 0, 0};
  return *reinterpret_cast<const float4*>(row + column);
}

__device__ float Dot4(const float4& a, const float4& b) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)));
}

__device__ void AddScaled(float4& sum, float w, const float4& v) {
  sum = {fmaf(w, v.x, sum.x), fmaf(w, v.y, sum.y), fmaf(w, v.z, sum.z),
         fmaf(w, v.w, sum.w)};
}

// The block's share of a token: chunks of 128 columns, a warp each.
struct Share {
  int rank = 0;  // of the block among the token's
  int size = 1;

  __device__ int first_chunk() const {
    return rank * kWarps + threadIdx.x / 32;
  }
  __device__ int stride() const { return size * kWarps; }
};

__device__ Share FindShare() {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  const cg::cluster_group cluster = cg::this_cluster();
  return {static_cast<int>(cluster.block_rank()),
          static_cast<int>(cluster.num_blocks())};
#else
  return {};
#endif
}

// The value that each block of the token has at `mine`, summed in the order of
// ranks. All blocks have stored theirs (SyncToken).
__device__ float TokenSum(const Share& share, float* mine) {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  float parts[kCluster];
#pragma unroll
  for (int r = 0; r < kCluster; ++r) {
    parts[r] = *cg::this_cluster().map_shared_rank(mine, r);
  }
  float sum = 0;
#pragma unroll
  for (int r = 0; r < kCluster; ++r) sum += parts[r];
  return sum;
#else
  return *mine;
#endif
}

__device__ void SyncToken() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#else
  __syncthreads();
#endif
}

// The snapshots' values at the lane's four columns.
struct Snapshots {
  float4 v[kHeld];
};

__device__ Snapshots FetchSnapshots(const ResidualCall& call, int token,
                                    int column) {
  Snapshots held;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    held.v[j] = {0, 0, 0, 0};
    if (j >= call.num_snapshots) continue;
    held.v[j] = Load4(call.snapshots[j] + size_t(token) * call.hidden, column,
                      call.hidden);
  }
  return held;
}

// Where what pends lies for the lane's four columns.
struct PendingParts {
  ProductParts parts[2];
};

__device__ PendingParts FindPending(const ResidualCall& call, int token,
                                    int column) {
  PendingParts found = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (i >= call.pending.count || column >= call.hidden) continue;
    found.parts[i] = PartsOf(call.pending.products[i], token, column);
  }
  return found;
}

__device__ float4 UpdatedPrefix(const ResidualCall& call, int token, int column,
                                const PendingParts& found) {
  const float4 old =
      Load4(call.prefix + size_t(token) * call.hidden, column, call.hidden);
  const PendingSum& pending = call.pending;
  if (pending.count == 0 || column >= call.hidden) return old;
  float4 sum = SumParts4(found.parts[0]);
  if (pending.count > 1) {
    const float4 more = SumParts4(found.parts[1]);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  if (pending.starts) return sum;
  return {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
}

__device__ void StorePrefix(const ResidualCall& call, int token, int column,
                            const float4& prefix) {
  if (column >= call.hidden) return;
  const size_t at = size_t(token) * call.hidden + column;
  *reinterpret_cast<float4*>(call.prefix + at) = prefix;
  if (call.next_snapshot == nullptr) return;
  *reinterpret_cast<float4*>(call.next_snapshot + at) = prefix;
}

// Adds a candidate's squares and its product with the mix weights.
__device__ void AddCandidate(int j, const float4& v, const float4& mix,
                             float* warp_sums) {
  const float squares = WarpSum(Dot4(v, v));
  const float product = WarpSum(Dot4(v, mix));
  if (threadIdx.x % 32 != 0) return;
  warp_sums[2 * j] += squares;
  warp_sums[2 * j + 1] += product;
}

__device__ void SumSnapshots(const ResidualCall& call, int token, int column,
                             const float4& mix, const Snapshots& held,
                             float* warp_sums) {
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (j < call.num_snapshots) AddCandidate(j, held.v[j], mix, warp_sums);
  }
#pragma unroll 1
  for (int j = kHeld; j < call.num_snapshots; ++j) {
    const float* rows = call.snapshots[j] + size_t(token) * call.hidden;
    AddCandidate(j, Load4(rows, column, call.hidden), mix, warp_sums);
  }
}

// The softmax weight of candidate `lane`, in every warp.
__device__ float WeighCandidates(const ResidualCall& call, const Share& share,
                                 Shared& shared) {
  const int lane = threadIdx.x % 32;
  __syncthreads();
  if (threadIdx.x < 2 * kMaxCandidates) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared.warp_sums[w][threadIdx.x];
    shared.block_sums[threadIdx.x] = sum;
  }
  SyncToken();
  float score = -INFINITY;
  if (lane <= call.num_snapshots) {
    const float mean = TokenSum(share, &shared.block_sums[2 * lane]) /
                       static_cast<float>(call.hidden);
    score = TokenSum(share, &shared.block_sums[2 * lane + 1]) /
            sqrtf(mean + call.eps);
  }
  float largest = score;
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  }
  const float weight = lane <= call.num_snapshots ? Exp(score - largest) : 0.0f;
  return weight / WarpSum(weight);
}

// weight: of candidate `lane`. The prefix has its new value.
__device__ float4 Mixture(const ResidualCall& call, int token, int column,
                          const float4& prefix, const Snapshots& held,
                          float weight) {
  float4 sum = {0, 0, 0, 0};
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const float w = __shfl_sync(kAllLanes, weight, j);
    if (j < call.num_snapshots) AddScaled(sum, w, held.v[j]);
  }
  for (int j = kHeld; j < call.num_snapshots; ++j) {
    const float* rows = call.snapshots[j] + size_t(token) * call.hidden;
    AddScaled(sum, __shfl_sync(kAllLanes, weight, j),
              Load4(rows, column, call.hidden));
  }
  AddScaled(sum, __shfl_sync(kAllLanes, weight, call.num_snapshots), prefix);
  return sum;
}

// rows: what a thread keeps of its chunks, [rounds][kThreads]; first the new
// prefix, then the mixture.
__device__ void MixToken(const ResidualCall& call, const Share& share,
                         int token, Snapshots held, const float4& norm,
                         float4* rows, Shared& shared) {
  const int lane = threadIdx.x % 32, chunks = PreparedChunks(call.hidden);
  const bool one_round = chunks <= share.stride();
  float weight = 0;
  if (call.num_snapshots > 0) weight = WeighCandidates(call, share, shared);
  float squares = 0;
  float4* mine = rows;
#pragma unroll 1
  for (int chunk = share.first_chunk(); chunk < chunks;
       chunk += share.stride(), mine += kThreads) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    if (call.num_snapshots > 0) {
      if (!one_round) held = FetchSnapshots(call, token, column);
      *mine = Mixture(call, token, column, *mine, held, weight);
    }
    squares += Dot4(*mine, *mine);
  }
  const float block_squares = BlockSum(squares, shared.scratch);
  if (threadIdx.x == 0) shared.block_squares = block_squares;
  SyncToken();
  const float mean =
      TokenSum(share, &shared.block_squares) / static_cast<float>(call.hidden);
  const float inverse = 1.0f / sqrtf(mean + call.eps);
  mine = rows;
#pragma unroll 1
  for (int chunk = share.first_chunk(); chunk < chunks;
       chunk += share.stride(), mine += kThreads) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    const float4 w = one_round ? norm : Load4(call.norm, column, call.hidden);
    const float v[4] = {mine->x * inverse * w.x, mine->y * inverse * w.y,
                        mine->z * inverse * w.z, mine->w * inverse * w.w};
    PrepareChunk(call.out, token, chunk, v);
  }
  SyncToken();  // others may still read this block's sums
}

__global__ void __launch_bounds__(kThreads)
    ResidualKernel(__grid_constant__ const ResidualCall call) {
  extern __shared__ float4 memory[];
  __shared__ Shared shared;
  const Share share = FindShare();
  const int token = blockIdx.y;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = PreparedChunks(call.hidden);
  float4* rows = memory + threadIdx.x;
  float* warp_sums = shared.warp_sums[warp];
  if (lane < 2 * kMaxCandidates) warp_sums[lane] = 0;
  __syncwarp();
  const int first = share.first_chunk();
  const bool one_round = chunks <= share.stride();
  const int first_column = first * kPreparedColumns + 4 * lane;
  const PendingParts pending = FindPending(call, token, first_column);
  Settle(pending.parts[0]);
  Settle(pending.parts[1]);
  float4 norm = {0, 0, 0, 0}, mix = {0, 0, 0, 0};
  if (call.norm != nullptr) norm = Load4(call.norm, first_column, call.hidden);
  // Older than the launch before: the snapshots.
  Snapshots held = {};
  const bool has_mix = call.num_snapshots > 0;
#pragma unroll 1
  for (int chunk = first; has_mix && chunk < chunks; chunk += share.stride()) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    mix = Load4(call.mix, column, call.hidden);
    held = FetchSnapshots(call, token, column);
    SumSnapshots(call, token, column, mix, held, warp_sums);
  }
  WaitForWork();
  float4* mine = rows;
#pragma unroll 1
  for (int chunk = first; chunk < chunks;
       chunk += share.stride(), mine += kThreads) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    *mine =
        UpdatedPrefix(call, token, column,
                      one_round ? pending : FindPending(call, token, column));
    StorePrefix(call, token, column, *mine);
    if (!has_mix) continue;
    if (!one_round) mix = Load4(call.mix, column, call.hidden);
    AddCandidate(call.num_snapshots, *mine, mix, warp_sums);
  }
  if (call.norm == nullptr) return;
  LetNextCome();
  MixToken(call, share, token, held, norm, rows, shared);
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
