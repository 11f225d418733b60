// Multi-head latent attention around its scores (docs/model.md 4.5, absorbed):
// the low-rank norms, queries into latent space, values out of it. The small
// matrices are fetched before the launch before has ended.
#include "kernels/cuda/spine_device.cuh"
#include "kernels/cuda/spine_norm.cuh"

namespace deltafin::cuda {
namespace {

// The slice that has a row of the step.
__device__ const MlaSlice& SliceOf(const MlaCall& call, int row) {
  int s = 0;
  while (s + 1 < call.num_slices && call.slices[s + 1].first_row <= row) ++s;
  return call.slices[s];
}

constexpr int kNormThreads = 512;

// Block (0, t): q_low of token t. Block (1, t): its row of the cache.
__global__ void __launch_bounds__(kNormThreads)
    MlaNormsKernel(__grid_constant__ const MlaCall call) {
  extern __shared__ float4 row[];
  WaitForWork();
  const int token = blockIdx.y;
  if (blockIdx.x == 0) {
    const auto load = [&](int column) {
      return ProductSum4(call.q_a, token, column);
    };
    const auto store = [&](int chunk, int, const float v[4]) {
      PrepareChunk(call.q_low, token, chunk, v);
    };
    NormalizeRow<kNormThreads, true>(call.q_lora, call.low_rank_eps,
                                     call.q_a_norm, row, load, store);
    return;
  }
  const MlaSlice& slice = SliceOf(call, token);
  float* cached = slice.rows + (slice.position + token - slice.first_row) *
                                   (call.latent + call.rope);
  const auto load = [&](int column) {
    return ProductSum4(call.kv_a, token, column);
  };
  const auto store = [&](int, int column, const float v[4]) {
    for (int i = 0; i < 4 && column < call.latent; ++i) {
      cached[column + i] = v[i];
    }
  };
  NormalizeRow<kNormThreads, true>(call.latent, call.low_rank_eps,
                                   call.kv_a_norm, row, load, store);
  for (int i = threadIdx.x; i < call.rope; i += kNormThreads) {
    cached[call.latent + i] = ProductSum(call.kv_a, token, call.latent + i);
  }
}

constexpr int kAbsorbColumns = 256;  // of a block, four a thread
constexpr int kAbsorbGroups = 4;     // of rows, joined at the end
constexpr int kAbsorbLanes = kAbsorbColumns / 4;
constexpr int kAbsorbThreads = kAbsorbLanes * kAbsorbGroups;
constexpr int kAbsorbBatch = 16;  // rows whose loads are under way at once

struct AbsorbShared {
  float parts[kAbsorbGroups][kSpineTokens][kAbsorbColumns];
};

__device__ __forceinline__ void AddPair(float sums[2], uint32_t pair, float x) {
  sums[0] = fmaf(WidenBf16(pair & 0xffff), x, sums[0]);
  sums[1] = fmaf(FloatOf(pair & 0xffff0000u), x, sums[1]);
}

// queries[t][h] = (keys[h]^T q_nope | q_rope) for 256 columns of one head.
__global__ void __launch_bounds__(kAbsorbThreads)
    MlaAbsorbKernel(__grid_constant__ const MlaCall call) {
  extern __shared__ float4 memory[];
  auto& shared = *reinterpret_cast<AbsorbShared*>(memory);
  float* q = reinterpret_cast<float*>(&shared + 1);  // [tokens][nope]
  const int head = blockIdx.x;
  const int width = call.latent + call.rope;
  const int lane = threadIdx.x % kAbsorbLanes;
  const int group = threadIdx.x / kAbsorbLanes;
  const int column = blockIdx.y * kAbsorbColumns + 4 * lane;
  const bool exists = column < call.latent;
  const uint16_t* keys = call.keys + size_t(head) * call.nope * call.latent +
                         (exists ? column : 0);
  float sums[kSpineTokens][4] = {};
  for (int first = group; first < call.nope;
       first += kAbsorbGroups * kAbsorbBatch) {
    uint2 pairs[kAbsorbBatch];
#pragma unroll
    for (int i = 0; i < kAbsorbBatch; ++i) {
      const int row = min(first + kAbsorbGroups * i, call.nope - 1);
      pairs[i] = __ldcs(
          reinterpret_cast<const uint2*>(keys + size_t(row) * call.latent));
    }
    if (first == group) {
      WaitForWork();
      for (int i = threadIdx.x; i < call.num_tokens * call.nope;
           i += kAbsorbThreads) {
        q[i] = ProductSum(call.q_b, i / call.nope,
                          head * (call.nope + call.rope) + i % call.nope);
      }
      __syncthreads();
      LetNextCome();
    }
#pragma unroll
    for (int t = 0; t < kSpineTokens; ++t) {
      if (t >= call.num_tokens) continue;
#pragma unroll
      for (int i = 0; i < kAbsorbBatch; ++i) {
        const int row = first + kAbsorbGroups * i;
        const float x = row < call.nope ? q[t * call.nope + row] : 0.0f;
        AddPair(sums[t], pairs[i].x, x);
        AddPair(sums[t] + 2, pairs[i].y, x);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kSpineTokens; ++t) {
    if (t >= call.num_tokens) continue;
    for (int i = 0; i < 4; ++i) {
      shared.parts[group][t][4 * lane + i] = sums[t][i];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < call.num_tokens * kAbsorbColumns;
       i += kAbsorbThreads) {
    const int t = i / kAbsorbColumns, c = i % kAbsorbColumns;
    if (blockIdx.y * kAbsorbColumns + c >= call.latent) continue;
    float sum = shared.parts[0][t][c];
    for (int g = 1; g < kAbsorbGroups; ++g) sum += shared.parts[g][t][c];
    call.queries[(size_t(t) * call.heads + head) * width +
                 blockIdx.y * kAbsorbColumns + c] = sum;
  }
  if (blockIdx.y != 0) return;
  for (int i = threadIdx.x; i < call.num_tokens * call.rope;
       i += kAbsorbThreads) {
    const int t = i / call.rope, r = i % call.rope;
    call.queries[(size_t(t) * call.heads + head) * width + call.latent + r] =
        ProductSum(call.q_b, t, head * (call.nope + call.rope) + call.nope + r);
  }
}

}  // namespace

cudaError_t LaunchMlaNorms(const SpineTarget& target, const MlaCall& call) {
  const int widest = call.q_lora > call.latent ? call.q_lora : call.latent;
  return LaunchSpine(target, MlaNormsKernel, dim3(2, call.num_tokens),
                     kNormThreads, NormBytes(widest, kNormThreads), call);
}

cudaError_t LaunchMlaAbsorb(const SpineTarget& target, const MlaCall& call) {
  const int parts = (call.latent + kAbsorbColumns - 1) / kAbsorbColumns;
  return LaunchSpine(
      target, MlaAbsorbKernel, dim3(call.heads, parts), kAbsorbThreads,
      sizeof(AbsorbShared) + sizeof(float) * kSpineTokens * call.nope, call);
}

}  // namespace deltafin::cuda
