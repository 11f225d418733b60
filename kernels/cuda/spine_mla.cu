// Multi-head latent attention around its scores (docs/model.md 4.5, absorbed):
// the low-rank norms, queries into latent space, values out of it.
#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAbsorbThreads = 128;

// The slice that has a row of the step.
__device__ const MlaSlice& SliceOf(const MlaCall& call, int row) {
  int s = 0;
  while (s + 1 < call.num_slices && call.slices[s + 1].first_row <= row) ++s;
  return call.slices[s];
}

__device__ float InverseRms(float squares, int width, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
}

// A block a token: q_low, and the token's row of the cache.
__global__ void __launch_bounds__(kThreads)
    MlaNormsKernel(__grid_constant__ const MlaCall call) {
  __shared__ float scratch[32];
  WaitForWork();
  const int token = blockIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float squares = 0;
  for (int i = threadIdx.x; i < call.q_lora; i += kThreads) {
    const float v = ProductValue(call.q_a, token, i);
    squares = fmaf(v, v, squares);
  }
  const float q_inverse =
      InverseRms(BlockSum(squares, scratch), call.q_lora, call.low_rank_eps);
  for (int chunk = warp; chunk < PreparedChunks(call.q_lora);
       chunk += kThreads / 32) {
    float v[4];
    for (int i = 0; i < 4; ++i) {
      const int column = chunk * kPreparedColumns + 4 * lane + i;
      v[i] = column < call.q_lora ? ProductValue(call.q_a, token, column) *
                                        q_inverse * call.q_a_norm[column]
                                  : 0.0f;
    }
    PrepareChunk(call.q_low, token, chunk, v);
  }
  squares = 0;
  for (int i = threadIdx.x; i < call.latent; i += kThreads) {
    const float v = ProductValue(call.kv_a, token, i);
    squares = fmaf(v, v, squares);
  }
  const float inverse =
      InverseRms(BlockSum(squares, scratch), call.latent, call.low_rank_eps);
  const MlaSlice& slice = SliceOf(call, token);
  const int width = call.latent + call.rope;
  float* row =
      slice.rows + size_t(slice.position + token - slice.first_row) * width;
  for (int i = threadIdx.x; i < width; i += kThreads) {
    const float v = ProductValue(call.kv_a, token, i);
    row[i] = i < call.latent ? v * inverse * call.kv_a_norm[i] : v;
  }
}

// A block has two columns a thread of one head's latent space:
// queries[t][h] = (keys[h]^T q_nope | q_rope).
__global__ void __launch_bounds__(kAbsorbThreads)
    MlaAbsorbKernel(__grid_constant__ const MlaCall call) {
  extern __shared__ float q[];  // [kSpineTokens][nope]
  const int head = blockIdx.x;
  const int width = call.latent + call.rope;
  const int first = head * (call.nope + call.rope);
  WaitForWork();
  for (int i = threadIdx.x; i < call.num_tokens * call.nope;
       i += kAbsorbThreads) {
    q[i] = ProductValue(call.q_b, i / call.nope, first + i % call.nope);
  }
  __syncthreads();
  const int column = 2 * (blockIdx.y * kAbsorbThreads + threadIdx.x);
  if (blockIdx.y == 0) {
    for (int i = threadIdx.x; i < call.num_tokens * call.rope;
         i += kAbsorbThreads) {
      const int token = i / call.rope, r = i % call.rope;
      call.queries[(size_t(token) * call.heads + head) * width + call.latent +
                   r] = ProductValue(call.q_b, token, first + call.nope + r);
    }
  }
  if (column >= call.latent) return;
  float sums[kSpineTokens][2] = {};
  const uint16_t* keys =
      call.keys + size_t(head) * call.nope * call.latent + column;
#pragma unroll 8
  for (int i = 0; i < call.nope; ++i) {
    const uint32_t pair =
        *reinterpret_cast<const uint32_t*>(keys + size_t(i) * call.latent);
    const float low = WidenBf16(pair & 0xffff);
    const float high = FloatOf(pair & 0xffff0000u);
    for (int t = 0; t < kSpineTokens; ++t) {
      if (t >= call.num_tokens) break;
      const float x = q[t * call.nope + i];
      sums[t][0] = fmaf(low, x, sums[t][0]);
      sums[t][1] = fmaf(high, x, sums[t][1]);
    }
  }
  for (int t = 0; t < kSpineTokens; ++t) {
    if (t >= call.num_tokens) break;
    float* out =
        call.queries + (size_t(t) * call.heads + head) * width + column;
    out[0] = sums[t][0];
    out[1] = sums[t][1];
  }
}

// The latents of one token and head out of the splits, to shared memory.
__device__ void JoinSplits(const MlaCall& call, int splits, int token, int head,
                           float* latent) {
  const size_t rows = size_t(call.num_tokens) * call.heads;
  const size_t stride = call.latent + 2;
  const float* part = call.parts + (size_t(token) * call.heads + head) * stride;
  float largest = -INFINITY;
  for (int s = 0; s < splits; ++s) {
    largest = fmaxf(largest, part[s * rows * stride]);
  }
  float total = 0;
  for (int s = 0; s < splits; ++s) {
    const float* p = part + s * rows * stride;
    total += p[1] * Exp(p[0] - largest);
  }
  for (int c = threadIdx.x; c < call.latent; c += kThreads) {
    float sum = 0;
    for (int s = 0; s < splits; ++s) {
      const float* p = part + s * rows * stride;
      sum = fmaf(p[2 + c], Exp(p[0] - largest), sum);
    }
    latent[c] = sum / total;
  }
}

struct ValuesCall {
  MlaCall call;
  int splits = 1;
};

// A block a head, a warp a value row: out = (values[h] latent) * sigmoid(g).
__global__ void __launch_bounds__(kThreads)
    MlaValuesKernel(__grid_constant__ const ValuesCall values) {
  extern __shared__ float latents[];  // [num_tokens][latent]
  const MlaCall& call = values.call;
  const int head = blockIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  WaitForWork();
  for (int t = 0; t < call.num_tokens; ++t) {
    JoinSplits(call, values.splits, t, head, latents + t * call.latent);
  }
  __syncthreads();
  for (int d = blockIdx.y * kThreads / 32 + warp; d < call.v_dim;
       d += gridDim.y * kThreads / 32) {
    const auto* row = reinterpret_cast<const uint32_t*>(
        call.values + (size_t(head) * call.v_dim + d) * call.latent);
    float sums[kSpineTokens] = {};
    for (int i = lane; i < call.latent / 2; i += 32) {
      const uint32_t pair = row[i];
      const float low = WidenBf16(pair & 0xffff);
      const float high = FloatOf(pair & 0xffff0000u);
      for (int t = 0; t < kSpineTokens; ++t) {
        if (t >= call.num_tokens) break;
        const float* x = latents + t * call.latent + 2 * i;
        sums[t] = fmaf(low, x[0], fmaf(high, x[1], sums[t]));
      }
    }
    for (int t = 0; t < call.num_tokens; ++t) {
      const float sum = WarpSum(sums[t]);
      if (lane != 0) continue;
      const int column = head * call.v_dim + d;
      const float gate = Sigmoid(ProductValue(call.g, t, column));
      call.out[size_t(t) * call.heads * call.v_dim + column] = sum * gate;
    }
  }
}

}  // namespace

cudaError_t LaunchMlaNorms(const SpineTarget& target, const MlaCall& call) {
  return LaunchSpine(target, MlaNormsKernel, dim3(call.num_tokens), kThreads, 0,
                     call);
}

cudaError_t LaunchMlaAbsorb(const SpineTarget& target, const MlaCall& call) {
  const int parts =
      (call.latent + 2 * kAbsorbThreads - 1) / (2 * kAbsorbThreads);
  return LaunchSpine(target, MlaAbsorbKernel, dim3(call.heads, parts),
                     kAbsorbThreads, sizeof(float) * kSpineTokens * call.nope,
                     call);
}

cudaError_t LaunchMlaValues(const SpineTarget& target, const MlaCall& call) {
  const ValuesCall values = {call, MlaSplits(target, call)};
  return LaunchSpine(target, MlaValuesKernel, dim3(call.heads, 2), kThreads,
                     sizeof(float) * call.num_tokens * call.latent, values);
}

}  // namespace deltafin::cuda
