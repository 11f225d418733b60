// The routed experts of a layer of one token, which is most of decoding, or of
// a few tokens with hardly an expert in common, in one launch: a block a
// multiprocessor, whose warps work for themselves. A block has one token, which
// it quantises, finds the token's jobs by itself and has the same share of them
// as the token's other blocks, so that most of what its warps wait for is their
// own.
#include <algorithm>

#include "kernels/cuda/chained_launch.cuh"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/one_token_inner.cuh"
#include "kernels/cuda/one_token_work.cuh"
#include "kernels/cuda/single_token.cuh"
#include "kernels/fixed_point.h"

namespace deltafin::cuda {
namespace {

__device__ int64_t* SumsOf(const LayerView& view, int token) {
  return view.sums + static_cast<ptrdiff_t>(token) * view.shape.latent_size;
}

// The block's part of the sums. One warp of it.
__device__ void ClearSums(const LayerView& view) {
  const TokenBlock& own = SharedHeader().own;
  int64_t* sums = SumsOf(view, own.token);
  for (int i = own.block * 32 + Lane(); i < view.shape.latent_size;
       i += own.blocks * 32) {
    sums[i] = 0;
  }
  __syncwarp();
  if (Lane() != 0) return;
  __threadfence();
  atomicAdd(view.cleared, 1u);
}

__device__ void WaitForSums(const LayerView& view) {
  if (view.adds) return;
  uint32_t cleared;
  do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];"
                 : "=r"(cleared)
                 : "l"(view.cleared)
                 : "memory");
  } while (cleared != view.clearings);
}

// The lane's row of a strip of down to the token's sum.
__device__ void AddRow(const LayerView& view, Strip strip, float value) {
  const float weight = SharedHeader().jobs[strip.job()].weight;
  const double product =
      static_cast<double>(weight) * static_cast<double>(value);  // exact
  if (!(fabs(product) < kFixedLimit)) ReportOverflow(view, strip.job());
  const long long term = __double2ll_rn(product * kFixedScale);
  int64_t* sums = SumsOf(view, SharedHeader().own.token);
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(
                   sums + strip.part() * kTileRows + Lane()),
               "l"(term)
               : "memory");
}

__device__ void BarrierOfPair(bool wait) {
  const int id = 1 + Warp() / 2;
  if (wait) {
    asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory");
  } else {
    asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory");
  }
}

// A row of gate or up: the pair's first warp has gate, and goes on with both.
__device__ void PairRows(const LayerView& view, const WarpWork& work,
                         float row) {
  float* up = SharedHeader().up[Warp() / 2][work.popped() % 2];
  if (Warp() % 2 != 0) {
    up[Lane()] = row;
    BarrierOfPair(false);
  } else {
    BarrierOfPair(true);
    HandOver(view, work.current(), row, up[Lane()]);
  }
}

// What a strip is multiplied with; for down, waits for it.
__device__ SingleActivations Operand(const LayerView& view, Strip strip) {
  if (!strip.down()) {
    return {{SharedLimbs(), SharedHeads(view)}, LatentGroups(view)};
  }
  WarpShared& warp = OwnShared(view);
  const int groups = SharedHeader().jobs[strip.job()].columns / kMxfp4Group;
  if (strip.job() != warp.taken_over) {
    if (warp.taken_over < 0) WaitForSums(view);
    TakeOver(view, strip.job(), groups, warp);
  }
  return {{&warp.limbs[0][0], warp.heads}, groups};
}

__device__ void RunStrips(const LayerView& view, WorkTiles& tiles) {
  WarpWork& work = tiles.work();
#pragma unroll 1
  for (; !work.current().IsNone(); work.Pop()) {
    Strip strip = work.current();
    const SingleActivations x = Operand(view, strip);
#pragma unroll 1
    for (bool more = true; more; strip = strip.Next()) {
      float row = 0;
      MultiplyStripOnce(tiles, x, Zeros(), view.multipliers, &row);
      more = strip.down() && strip.more() > 0;
      if (strip.down()) {
        AddRow(view, strip, row);
      } else {
        PairRows(view, work, row);
      }
    }
  }
}

__global__ void __launch_bounds__(32 * kMostWarps, 1)
    RunOneToken(const __grid_constant__ LayerView view) {
  Header& header = SharedHeader();
  for (int i = threadIdx.x; i < kStageGroups * kActivationBytes;
       i += blockDim.x) {
    (&header.zero_limbs[0][0])[i] = 0;
  }
  if (threadIdx.x < kStageGroups) header.zero_heads[threadIdx.x] = {0, 0, 0, 0};
  const TokenBlock own =
      TokenOfBlock(view.num_tokens, static_cast<int>(blockIdx.x),
                   static_cast<int>(gridDim.x));
  PrefetchInputs(view, own);
  WaitForLaunchBefore();
  FindJobs(view, own, Token(view, own.token));
  WorkTiles tiles(view);
  QuantizeToken(view);
  __syncthreads();
  if (!view.adds && Warp() == Warps() - 1) ClearSums(view);
  RunStrips(view, tiles);
}

}  // namespace

cudaError_t PlanOneToken(int card, LayerView* view) {
  int most = 0;
  cudaError_t error = cudaDeviceGetAttribute(
      &most, cudaDevAttrMaxSharedMemoryPerBlockOptin, card);
  if (error != cudaSuccess) return error;
  constexpr int kFewestWarps = 2 * kEarlyPart;
  int warps = kMostWarps;
  while (warps >= kFewestWarps &&
         SharedBytes(*view, warps) > static_cast<size_t>(most)) {
    warps -= 2;
  }
  const int threads = 32 * warps;
  view->one_token_warps = warps;
  view->one_token_jobs = 0;
  if (warps < kFewestWarps || view->shape.latent_size > Token::Most(threads)) {
    return cudaSuccess;
  }
  view->one_token_jobs = std::min(threads, kMaxOneTokenJobs);
  view->row_blocks_follow =
      view->shape.latent_size % kTileBlockRows == 0 &&
      view->shape.intermediate_size % (kStageGroups * kMxfp4Group) == 0;
  return cudaFuncSetAttribute(RunOneToken,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(SharedBytes(*view, warps)));
}

cudaError_t LaunchOneToken(const LayerView& view, cudaStream_t stream) {
  return LaunchChained(RunOneToken, view.multiprocessors,
                       32 * view.one_token_warps,
                       SharedBytes(view, view.one_token_warps), view, stream);
}

}  // namespace deltafin::cuda
