// kernels/cuda/spine_device.cuh
//
// What the kernels of the spine share: chained launches, sums over warps and
// blocks in a fixed order, activations as products take them. Private to
// kernels/cuda/.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/spine_launches.h"

namespace deltafin::cuda {
namespace {

constexpr uint32_t kAllLanes = 0xffffffffu;

// Before it a kernel reads weights alone, and what is older than the launch
// before.
__device__ __forceinline__ void WaitForWork() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Comes after WaitForWork: the next launch's blocks may come and fetch weights.
// A small launch says so when its own loads are done, for which they would be
// in the way.
__device__ __forceinline__ void LetNextCome() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <typename Call>
cudaError_t LaunchSpine(const SpineTarget& target, void (*kernel)(Call),
                        dim3 grid, int threads, size_t shared_bytes,
                        const Call& call, int cluster = 1) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = target.stream;
  config.attrs = attributes;
  if (target.hopper) {
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = 1;
  }
  if (cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster;
    attributes[config.numAttrs].val.clusterDim.y = 1;
    attributes[config.numAttrs].val.clusterDim.z = 1;
    ++config.numAttrs;
  }
  return cudaLaunchKernelEx(&config, kernel, call);
}

__device__ __forceinline__ float WarpSum(float v) {
  for (int step = 16; step > 0; step /= 2) {
    v += __shfl_xor_sync(kAllLanes, v, step);
  }
  return v;
}

// The same value in every thread. `scratch`: 32 floats; a barrier before and
// behind.
__device__ __forceinline__ float BlockSum(float v, float* scratch) {
  v = WarpSum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int warps = (blockDim.x + 31) / 32;
  float sum = 0;
  for (int w = 0; w < warps; ++w) sum += scratch[w];
  return sum;
}

// Where the parts of a row of a product lie.
struct ProductParts {
  const float* first;
  int count;
};

__device__ __forceinline__ ProductParts PartsOf(const ProductView& view,
                                                int token, int row) {
  const int block = row / kSpineBlockRows;
  const int begin = view.first_stage + block * view.stages;
  const int first = begin / view.per_block;
  const int last = (begin + view.stages - 1) / view.per_block;
  const size_t slot = ProductSlot(view.first_block + block, first);
  return {view.partials + (slot * kSpineTokens + token) * kSpineBlockRows +
              row % kSpineBlockRows,
          last - first + 1};
}

// Makes that PartsOf is computed here, before the work is waited for, and its
// constants are fetched.
__device__ __forceinline__ void Settle(const ProductParts& parts) {
  asm volatile("" ::"l"(parts.first), "r"(parts.count));
}

constexpr int kPartStride = kSpineTokens * kSpineBlockRows;

// As ProductValue, with the loads of several parts under way at once.
__device__ __forceinline__ float ProductSum(const ProductView& view, int token,
                                            int row) {
  constexpr int kBatch = 16;
  const ProductParts parts = PartsOf(view, token, row);
  float sum = 0;
  for (int g = 0; g < parts.count; g += kBatch) {
    float v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      v[i] = parts.first[min(g + i, parts.count - 1) * kPartStride];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) sum += g + i < parts.count ? v[i] : 0.0f;
  }
  return sum;
}

// The row and the three behind it.
__device__ __forceinline__ float4 SumParts4(const ProductParts& parts) {
  constexpr int kBatch = 28;
  float4 sum = {0, 0, 0, 0};
  for (int g = 0; g < parts.count; g += kBatch) {
    float4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      v[i] = *reinterpret_cast<const float4*>(
          parts.first + min(g + i, parts.count - 1) * kPartStride);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const bool counts = g + i < parts.count;
      sum.x += counts ? v[i].x : 0.0f;
      sum.y += counts ? v[i].y : 0.0f;
      sum.z += counts ? v[i].z : 0.0f;
      sum.w += counts ? v[i].w : 0.0f;
    }
  }
  return sum;
}

// Rows row..row + 3.
__device__ __forceinline__ float4 ProductSum4(const ProductView& view,
                                              int token, int row) {
  return SumParts4(PartsOf(view, token, row));
}

// sums[i]: the row for token first + i, of those that the product has.
__device__ __forceinline__ void ProductSumTokens(const ProductView& view,
                                                 int first, int row,
                                                 float sums[kSpineTokens]) {
  const ProductParts parts = PartsOf(view, first, row);
#pragma unroll
  for (int t = 0; t < kSpineTokens; ++t) sums[t] = 0;
  for (int g = 0; g < parts.count; ++g) {
#pragma unroll
    for (int t = 0; t < kSpineTokens; ++t) {
      // Tokens beyond the last one read what is not used.
      const int token = first + t < kSpineTokens ? t : 0;
      sums[t] += parts.first[g * kPartStride + token * kSpineBlockRows];
    }
  }
}

__device__ __forceinline__ void StoreSplit(const PreparedView& out, int token,
                                           int chunk, int q, const float v[4]) {
  uint16_t parts[4][kSplitParts];
  for (int i = 0; i < 4; ++i) SplitFloat(v[i], parts[i]);
  for (int p = 0; p < kSplitParts; ++p) {
    const uint2 packed = {parts[0][p] | uint32_t{parts[1][p]} << 16,
                          parts[2][p] | uint32_t{parts[3][p]} << 16};
    *reinterpret_cast<uint2*>(out.split + SplitOffset(chunk, p, token, q)) =
        packed;
  }
}

__device__ __forceinline__ void StoreLimbs(const PreparedView& out, int token,
                                           int chunk, int q, const float v[4]) {
  uint32_t largest = 0;
  for (int i = 0; i < 4; ++i) {
    largest = max(largest, BitsOf(v[i]) & 0x7fffffffu);
  }
  const uint32_t exponent = LimbExponent(__reduce_max_sync(kAllLanes, largest));
  const float inverse = LimbInverse(exponent);
  uint32_t packed[kLimbParts] = {};
  for (int i = 0; i < 4; ++i) {
    int8_t limbs[kLimbParts];
    SplitInteger(__float2int_rn(v[i] * inverse), limbs);
    for (int l = 0; l < kLimbParts; ++l) {
      packed[l] |= uint32_t{static_cast<uint8_t>(limbs[l])} << 8 * i;
    }
  }
  for (int l = 0; l < kLimbParts; ++l) {
    *reinterpret_cast<uint32_t*>(out.limbs + LimbOffset(chunk, l, token, q)) =
        packed[l];
  }
  if (q == 0) {
    out.factors[chunk * kSpineTokens + token] = LimbFactor(exponent);
  }
}

// A whole warp: lane q has columns 4q..4q+3 of the chunk, zeros beyond the
// width.
__device__ __forceinline__ void PrepareChunk(const PreparedView& out, int token,
                                             int chunk, const float v[4]) {
  const int lane = threadIdx.x % 32;
  if (out.split != nullptr) StoreSplit(out, token, chunk, lane, v);
  if (out.limbs != nullptr) StoreLimbs(out, token, chunk, lane, v);
}

}  // namespace
}  // namespace deltafin::cuda
