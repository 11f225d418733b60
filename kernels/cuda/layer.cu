// The routed experts of a layer: one launch whose blocks stay and take units in
// order (unit_order.h) until none is left.
#include "kernels/cuda/chained_launch.cuh"
#include "kernels/cuda/down_unit.cuh"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/up_unit.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kBlocksPerMultiprocessor = 3;
// Row blocks of down of a unit. Small units in layers of few jobs, where blocks
// would wait for the last ones, else large ones, as to begin one takes time.
constexpr int kFewJobsDownBlocks = 4;
constexpr int kManyJobsDownBlocks = 14;

template <int kDownBlocks>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    RunLayer(LayerView view) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_memory);
  for (int i = threadIdx.x; i < kStageGroups * kActivationBytes;
       i += kThreads) {
    (&shared.zero_limbs[0][0])[i] = 0;
  }
  if (threadIdx.x < kStageGroups) shared.zero_heads[threadIdx.x] = {0, 0, 0, 0};
  WaitForLaunchBefore();
  if (threadIdx.x == 0) {
    WriteTask<kDownBlocks>(view, blockIdx.x, shared.tasks[0]);
  }
  __syncthreads();
  StripTiles tiles(FirstSource<kDownBlocks>(view, shared.tasks[0]),
                   shared.stages[Warp()]);
#pragma unroll 1
  for (int slot = 0; shared.tasks[slot].work != Work::kNone; slot ^= 1) {
    const Assignment assigned = BeginUnit(view, slot, shared);
    if (assigned.task.work == Work::kDown) {
      RunDown<kDownBlocks>(view, assigned, tiles, shared);
    } else {
      RunUp<kDownBlocks>(view, assigned, tiles, shared);
    }
  }
}

using Kernel = void (*)(LayerView);

constexpr Kernel kKernels[] = {RunLayer<kFewJobsDownBlocks>,
                               RunLayer<kManyJobsDownBlocks>};

Kernel KernelOf(const LayerView& view) {
  return view.few_jobs ? kKernels[0] : kKernels[1];
}

// Blocks of `kernel` that a multiprocessor of the current card holds.
cudaError_t BlocksOf(Kernel kernel, int* blocks) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  if (error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, kThreads,
                                                       sizeof(Shared));
}

}  // namespace

cudaError_t PlanLaunches(LayerView* view) {
  int card = 0;
  int multiprocessors = 0;
  int major = 0;
  cudaError_t error = cudaGetDevice(&card);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors,
                                   cudaDevAttrMultiProcessorCount, card);
  }
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card);
  }
  int fewest = kBlocksPerMultiprocessor;
  for (const Kernel kernel : kKernels) {
    int blocks = 0;
    if (error == cudaSuccess) error = BlocksOf(kernel, &blocks);
    fewest = blocks < fewest ? blocks : fewest;
  }
  view->blocks = fewest * multiprocessors;
  view->multiprocessors = multiprocessors;
  view->chained = major >= 9;
  return error == cudaSuccess ? PlanOneToken(card, view) : error;
}

cudaError_t LaunchLayer(const LayerView& view, cudaStream_t stream) {
  return LaunchChained(KernelOf(view), view.blocks, kThreads, sizeof(Shared),
                       view, stream);
}

}  // namespace deltafin::cuda
