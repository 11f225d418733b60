// The small launches around the spine's feed-forward: router, gated unit, the
// norm of the routed sums, and products or activations turned into the other
// form.
#include "kernels/cuda/spine_device.cuh"
#include "kernels/cuda/spine_norm.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kRouterThreads = 1024;
constexpr int kWarpThreads = 128;  // four chunks of 128 columns
// SumNormKernel finds room beside two blocks of products: 7,168 registers.
constexpr int kSumThreads = 224;
constexpr int kSumBlocks = 65536 / (kSumThreads * 32);

__device__ bool IsFinite(float f) {
  return (BitsOf(f) & 0x7f800000u) != 0x7f800000u;
}

struct RouterShared {
  float score[kRouterThreads];
  int chosen_before[32];
  int32_t experts[kRouterThreads];
};

// Orders like the floats.
__device__ uint32_t OrderedBits(float f) {
  const uint32_t bits = BitsOf(f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// How many threads of lower index hold `flag`, for those that do. A barrier
// before and behind.
__device__ int CountBefore(bool flag, int* warp_counts) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t ballot = __ballot_sync(kAllLanes, flag);
  __syncthreads();
  if (lane == 0) warp_counts[warp] = __popc(ballot);
  __syncthreads();
  int before = __popc(ballot & ((1u << lane) - 1));
  for (int w = 0; w < warp; ++w) before += warp_counts[w];
  return before;
}

// Whether the thread's key is among the `count` largest of the block, equal
// ones by lower index.
__device__ bool IsAmongLargest(uint32_t key, int count, int* warp_counts) {
  uint32_t least = 0;  // the count-th largest key, bit by bit
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (__syncthreads_count(key >= (least | bit)) >= count) least |= bit;
  }
  const int larger = __syncthreads_count(key > least);
  const bool equal = key == least;
  const int before = CountBefore(equal, warp_counts);
  return key > least || (equal && before < count - larger);
}

// Experts of one token: thread e has expert e.
__device__ void RouteToken(const RouterCall& call, int token,
                           RouterShared& shared) {
  const int e = threadIdx.x;
  uint32_t key = 0;
  if (e < call.num_experts) {
    const float z = ProductSum(call.router, token, e);
    if (!IsFinite(z)) *call.not_finite = 1;
    LetNextCome();
    shared.score[e] = Sigmoid(z);
    key = OrderedBits(shared.score[e] + call.bias[e]);
  }
  const bool chosen = IsAmongLargest(key, call.top_k, shared.chosen_before);
  const int place = CountBefore(chosen, shared.chosen_before);
  if (chosen) shared.experts[place] = e;
  __syncthreads();
  if (e >= call.top_k) return;
  float sum = 0;
  for (int k = 0; k < call.top_k; ++k) sum += shared.score[shared.experts[k]];
  const int expert = shared.experts[e];
  call.experts[token * call.top_k + e] = expert;
  call.weights[token * call.top_k + e] =
      shared.score[expert] / (sum + 1e-20f) * call.scaling;
}

// Block (0, t) routes token t, the others gather its latents.
__global__ void __launch_bounds__(kRouterThreads)
    RouterKernel(__grid_constant__ const RouterCall call) {
  __shared__ RouterShared shared;
  WaitForWork();
  const int token = blockIdx.y;
  if (blockIdx.x == 0) {
    RouteToken(call, token, shared);
    return;
  }
  const int column = (blockIdx.x - 1) * kRouterThreads + threadIdx.x;
  if (column >= call.latent) return;
  const float v = ProductSum(call.latent_down, token, column);
  if (!IsFinite(v)) *call.not_finite = 1;
  call.latents[size_t(token) * call.latent + column] = v;
}

__global__ void __launch_bounds__(kWarpThreads)
    ActivateKernel(__grid_constant__ const ActivateCall call) {
  WaitForWork();
  const int token = blockIdx.y;
  const int chunk = blockIdx.x * (kWarpThreads / 32) + threadIdx.x / 32;
  if (chunk >= PreparedChunks(call.width)) return;
  const int column = chunk * kPreparedColumns + 4 * (threadIdx.x % 32);
  float v[4] = {};
  if (column < call.width) {
    const float4 gate = ProductSum4(call.gate, token, column);
    const float4 up = ProductSum4(call.up, token, column);
    LetNextCome();
    v[0] = Situ(gate.x, up.x, call.situ);
    v[1] = Situ(gate.y, up.y, call.situ);
    v[2] = Situ(gate.z, up.z, call.situ);
    v[3] = Situ(gate.w, up.w, call.situ);
  }
  PrepareChunk(call.out, token, chunk, v);
}

// A block a token.
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    SumNormKernel(__grid_constant__ const SumNormCall call) {
  extern __shared__ float4 row[];
  const int token = blockIdx.x;
  const int64_t* sums = call.sums + size_t(token) * call.width;
  const auto load = [sums](int column) {
    const auto* pairs = reinterpret_cast<const longlong2*>(sums + column);
    const longlong2 low = pairs[0], high = pairs[1];
    constexpr float kStep = 0x1p-40f;
    return float4{__ll2float_rn(low.x) * kStep, __ll2float_rn(low.y) * kStep,
                  __ll2float_rn(high.x) * kStep, __ll2float_rn(high.y) * kStep};
  };
  const auto store = [&](int chunk, int, const float v[4]) {
    PrepareChunk(call.out, token, chunk, v);
  };
  NormalizeRow<kSumThreads, false>(call.width, call.eps, call.norm, row, load,
                                   store);
  WaitForWork();
  LetNextCome();
}

__global__ void __launch_bounds__(kWarpThreads)
    PrepareKernel(__grid_constant__ const PrepareCall call) {
  WaitForWork();
  const int token = blockIdx.y;
  const int chunk = blockIdx.x * (kWarpThreads / 32) + threadIdx.x / 32;
  if (chunk >= PreparedChunks(call.width)) return;
  const int column = chunk * kPreparedColumns + 4 * (threadIdx.x % 32);
  float v[4] = {};
  for (int i = 0; i < 4 && column < call.width; ++i) {
    v[i] = call.x[size_t(token) * call.width + column + i];
  }
  PrepareChunk(call.out, token, chunk, v);
}

__global__ void __launch_bounds__(kWarpThreads)
    GatherKernel(__grid_constant__ const GatherCall call) {
  WaitForWork();
  const int row = blockIdx.x * kWarpThreads + threadIdx.x;
  if (row >= call.rows) return;
  call.out[size_t(blockIdx.y) * call.rows + row] =
      ProductSum(call.product, blockIdx.y, row);
}

dim3 ChunkGrid(int width, int num_tokens) {
  constexpr int kChunks = kWarpThreads / 32;
  return dim3((PreparedChunks(width) + kChunks - 1) / kChunks, num_tokens);
}

}  // namespace

cudaError_t LaunchRouter(const SpineTarget& target, const RouterCall& call) {
  if (call.num_experts > kRouterThreads) return cudaErrorInvalidValue;
  const int gatherers = (call.latent + kRouterThreads - 1) / kRouterThreads;
  return LaunchSpine(target, RouterKernel, dim3(1 + gatherers, call.num_tokens),
                     kRouterThreads, 0, call);
}

cudaError_t LaunchActivate(const SpineTarget& target,
                           const ActivateCall& call) {
  return LaunchSpine(target, ActivateKernel,
                     ChunkGrid(call.width, call.num_tokens), kWarpThreads, 0,
                     call);
}

cudaError_t LaunchSumNorm(const SpineTarget& target, const SumNormCall& call) {
  return LaunchSpine(target, SumNormKernel, dim3(call.num_tokens), kSumThreads,
                     NormBytes(call.width, kSumThreads), call);
}

cudaError_t LaunchPrepare(const SpineTarget& target, const PrepareCall& call) {
  return LaunchSpine(target, PrepareKernel,
                     ChunkGrid(call.width, call.num_tokens), kWarpThreads, 0,
                     call);
}

cudaError_t LaunchGather(const SpineTarget& target, const GatherCall& call) {
  return LaunchSpine(
      target, GatherKernel,
      dim3((call.rows + kWarpThreads - 1) / kWarpThreads, call.num_tokens),
      kWarpThreads, 0, call);
}

}  // namespace deltafin::cuda
