// Before a layer: tokens grouped by expert, jobs, quantised tokens, sums of
// zero. Block 0 makes the jobs, the others do the rest.
#include "kernels/cuda/chained_launch.cuh"
#include "kernels/cuda/launches.h"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xffffffff;

struct Counts {
  int pairs;
  int jobs;
};

// Sums over the threads before this one, and of all.
__device__ Counts SumBefore(Counts mine, Counts* total) {
  __shared__ Counts warp_sums[kWarps];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  Counts sum = mine;
  for (int step = 1; step < 32; step *= 2) {
    const int pairs = __shfl_up_sync(kAllLanes, sum.pairs, step);
    const int jobs = __shfl_up_sync(kAllLanes, sum.jobs, step);
    if (lane >= step) sum = {sum.pairs + pairs, sum.jobs + jobs};
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  const Counts other = warp_sums[lane];  // there are as many warps as lanes
  const auto before = [&](int value) {
    return __reduce_add_sync(kAllLanes, lane < warp ? value : 0);
  };
  const Counts result = {before(other.pairs) + sum.pairs - mine.pairs,
                         before(other.jobs) + sum.jobs - mine.jobs};
  *total = {__reduce_add_sync(kAllLanes, other.pairs),
            __reduce_add_sync(kAllLanes, other.jobs)};
  __syncthreads();
  return result;
}
static_assert(kWarps == 32);

__device__ bool IsHere(const LayerView& view, int expert) {
  return expert >= 0 && expert < view.num_experts &&
         view.records[expert].slices != nullptr;
}

// The jobs of one expert: slice by slice, so that its tokens' jobs meet in the
// second-level cache.
__device__ void WriteJobs(const LayerView& view, int expert, int first_pair,
                          int num_pairs, int job) {
  const CudaExpertRecord& record = view.records[expert];
  const size_t begin = view.shape.slice_offset(record.run.first);
  for (int s = 0; s < record.run.count; ++s) {
    const int slice = record.run.first + s;
    for (int pair = 0; pair < num_pairs; pair += view.tokens_of_job()) {
      const int left = num_pairs - pair;
      view.ready[job] = 0;
      view.jobs[job++] = {
          record.slices + (view.shape.slice_offset(slice) - begin),
          view.shape.slice_columns(slice), expert, first_pair + pair,
          left < view.tokens_of_job() ? left : view.tokens_of_job()};
    }
  }
}

// count: [num_experts] routes of each expert; left with where its pairs start.
__device__ void MakeJobs(const LayerView& view, int* count) {
  Counts before = {0, 0};
  for (int base = 0; base < view.num_experts; base += kThreads) {
    const int expert = base + static_cast<int>(threadIdx.x);
    const bool real = expert < view.num_experts;
    const int pairs = real ? count[expert] : 0;
    const int passes =
        (pairs + view.tokens_of_job() - 1) / view.tokens_of_job();
    const int jobs = passes == 0 ? 0 : passes * view.records[expert].run.count;
    Counts all = {0, 0};
    const Counts first = SumBefore({pairs, jobs}, &all);
    const int first_pair = before.pairs + first.pairs;
    if (real) count[expert] = first_pair;
    if (jobs > 0) {
      WriteJobs(view, expert, first_pair, pairs, before.jobs + first.jobs);
    }
    before = {before.pairs + all.pairs, before.jobs + all.jobs};
  }
  if (threadIdx.x == 0) *view.counts = {before.jobs, view.blocks};
}

__device__ void GroupByExpert(const LayerView& view) {
  extern __shared__ int count[];
  const int num_routes = view.num_tokens * view.top_k;
  for (int e = threadIdx.x; e < view.num_experts; e += kThreads) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < num_routes; i += kThreads) {
    const int expert = view.routes[i].expert;
    if (IsHere(view, expert)) atomicAdd(&count[expert], 1);
  }
  __syncthreads();
  MakeJobs(view, count);
  __syncthreads();
  for (int i = threadIdx.x; i < num_routes; i += kThreads) {
    const CudaExpertRoute route = view.routes[i];
    if (!IsHere(view, route.expert)) continue;
    view.pairs[atomicAdd(&count[route.expert], 1)] = {i / view.top_k,
                                                      route.weight};
  }
}

// One warp: group `group` of token `token`.
__device__ void QuantizeGroup(const LayerView& view, int token, int group) {
  const int lane = threadIdx.x % 32;
  const int groups = view.shape.latent_size / kMxfp4Group;
  const size_t row = static_cast<size_t>(token) * groups + group;
  const float x = view.x[row * kMxfp4Group + lane];
  const uint32_t largest =
      __reduce_max_sync(kAllLanes, BitsOf(x) & kMagnitudeMask);
  if (largest >= kInfinityBits) {
    if (lane == 0) {
      atomicMin(&view.errors->not_finite_token, static_cast<uint32_t>(token));
    }
    return;
  }
  const int field = ExponentField(largest);
  const int32_t value = QuantizedValue(x, field);
  int8_t limb[3];
  SplitLimbs(value, limb);
  uint8_t* out = view.latent.limbs + row * kActivationBytes;
  for (int l = 0; l < 3; ++l) {
    out[ActivationOffset(lane, l)] = static_cast<uint8_t>(limb[l]);
  }
  out[ActivationOffset(lane, 1) + 8] = 0;
  const int32_t sum = __reduce_add_sync(kAllLanes, value);
  if (lane == 0) view.latent.heads[row] = HeadOf(field, sum);
}

__global__ void __launch_bounds__(kThreads) Prepare(LayerView view) {
  WaitForLaunchBefore();
  if (blockIdx.x == 0) {
    GroupByExpert(view);
    return;
  }
  const int thread = (blockIdx.x - 1) * kThreads + threadIdx.x;
  const int threads = (gridDim.x - 1) * kThreads;
  const int latent = view.shape.latent_size;
  for (int i = thread; i < view.num_tokens * latent && !view.adds;
       i += threads) {
    view.sums[i] = 0;
  }
  const int groups = latent / kMxfp4Group;
  for (int i = thread / 32; i < view.num_tokens * groups; i += threads / 32) {
    QuantizeGroup(view, i / groups, i % groups);
  }
}

}  // namespace

cudaError_t LaunchPrepare(const LayerView& view, cudaStream_t stream) {
  const int warps = view.num_tokens * view.shape.latent_size / kMxfp4Group;
  const int blocks = (warps + kWarps - 1) / kWarps;
  return LaunchChained(Prepare, 1 + (blocks < 256 ? blocks : 256), kThreads,
                       view.num_experts * sizeof(int), view, stream);
}

}  // namespace deltafin::cuda
