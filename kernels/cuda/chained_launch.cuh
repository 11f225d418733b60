// kernels/cuda/chained_launch.cuh
//
// Launches that come without the usual pause after the one before. Private to
// kernels/cuda/.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/layer_view.h"

namespace deltafin::cuda {
namespace {

// What a kernel that LaunchChained starts does before it reads or writes what
// others use on the stream.
__device__ __forceinline__ void WaitForLaunchBefore() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Starts the kernel so that its blocks come to the multiprocessors as those of
// the launch before leave them, where view.chained says that the card can.
inline cudaError_t LaunchChained(void (*kernel)(LayerView), int blocks,
                                 int threads, size_t shared_bytes,
                                 const LayerView& view, cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = view.chained ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, view);
}

}  // namespace
}  // namespace deltafin::cuda
