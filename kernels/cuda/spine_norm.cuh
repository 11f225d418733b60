// kernels/cuda/spine_norm.cuh
//
// RMSNorm of a row by one block, loaded once. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

// Bytes of dynamic shared memory for a row.
inline size_t NormBytes(int width, int threads) {
  const int warps = threads / 32;
  const int rounds = (PreparedChunks(width) + warps - 1) / warps;
  return sizeof(float4) * threads * rounds;
}

// load(column) gives four values, store(chunk, column, v[4]) gets them
// normalised, by whole warps: zeros beyond the width. `row`: NormBytes.
template <int kThreads, bool kIsSmall, typename Load, typename Store>
__device__ void NormalizeRow(int width, float eps, const float* weight,
                             float4* row, Load load, Store store) {
  __shared__ float scratch[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = PreparedChunks(width);
  float squares = 0;
  float4* mine = row + threadIdx.x;
  for (int chunk = warp; chunk < chunks;
       chunk += kThreads / 32, mine += kThreads) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    float4 v = {0, 0, 0, 0};
    if (column < width) v = load(column);
    *mine = v;
    squares =
        fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, squares))));
  }
  const float mean = BlockSum(squares, scratch) / static_cast<float>(width);
  if (kIsSmall) LetNextCome();
  const float inverse = 1.0f / sqrtf(mean + eps);
  mine = row + threadIdx.x;
  for (int chunk = warp; chunk < chunks;
       chunk += kThreads / 32, mine += kThreads) {
    const int column = chunk * kPreparedColumns + 4 * lane;
    float4 w = {0, 0, 0, 0};
    if (column < width) w = *reinterpret_cast<const float4*>(weight + column);
    const float v[4] = {mine->x * inverse * w.x, mine->y * inverse * w.y,
                        mine->z * inverse * w.z, mine->w * inverse * w.w};
    store(chunk, column, v);
  }
}

}  // namespace
}  // namespace deltafin::cuda
