// The end of latent attention: the splits of a head joined, its values out of
// latent space, gated. values[h] is fetched before the scores are there.
#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxLatent = 512;
constexpr int kVectors = kMaxLatent / 8 / 32;  // 16 bytes of a row, a lane
constexpr int kRows = 8;                       // of values, a warp
constexpr int kRowLanes = 32 / kRows;
constexpr int kMaxSplits = 64;
constexpr int kMaxValues = kPreparedColumns;  // of a head
constexpr int kBatch = 8;  // splits whose loads are under way at once

struct ValuesCall {
  MlaCall call;
  int splits = 1;
};

struct ValuesShared {
  float out[kSpineTokens][kMaxValues];
  float latents[kSpineTokens][kMaxLatent];
  float weights[kSpineTokens][kMaxSplits];
};

// The weight of each split in the joined sum. A warp a token.
__device__ void WeighSplits(const MlaCall& call, int splits, int head,
                            ValuesShared& shared) {
  const int lane = threadIdx.x % 32;
  const size_t rows = size_t(call.num_tokens) * call.heads;
  for (int t = threadIdx.x / 32; t < call.num_tokens; t += kWarps) {
    const float2* stats =
        reinterpret_cast<const float2*>(call.stats) + t * call.heads + head;
    float2 mine[2];
    float largest = -INFINITY;
    for (int i = 0; i < 2; ++i) {
      const int s = lane + 32 * i;
      mine[i] = s < splits ? stats[s * rows] : float2{-INFINITY, 0};
      largest = fmaxf(largest, mine[i].x);
    }
    for (int step = 16; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    float weights[2], total = 0;
    for (int i = 0; i < 2; ++i) {
      weights[i] = Exp(mine[i].x - largest);
      total = fmaf(weights[i], mine[i].y, total);
    }
    total = WarpSum(total);
    for (int i = 0; i < 2; ++i) {
      shared.weights[t][lane + 32 * i] = weights[i] / total;
    }
  }
}

// shared.latents[t] = the weighted sum of the splits.
__device__ void JoinSplits(const MlaCall& call, int splits, int head,
                           ValuesShared& shared) {
  const size_t rows = size_t(call.num_tokens) * call.heads;
  const int quads = call.latent / 4;
  for (int i = threadIdx.x; i < call.num_tokens * quads; i += kThreads) {
    const int t = i / quads, column = i % quads * 4;
    const float* part =
        call.parts + (size_t(t) * call.heads + head) * call.latent + column;
    float4 sum = {0, 0, 0, 0};
    for (int s = 0; s < splits; s += kBatch) {
      float4 v[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        v[k] = *reinterpret_cast<const float4*>(part + min(s + k, splits - 1) *
                                                           rows * call.latent);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const float w = s + k < splits ? shared.weights[t][s + k] : 0.0f;
        sum = {fmaf(w, v[k].x, sum.x), fmaf(w, v[k].y, sum.y),
               fmaf(w, v[k].z, sum.z), fmaf(w, v[k].w, sum.w)};
      }
    }
    *reinterpret_cast<float4*>(&shared.latents[t][column]) = sum;
  }
}

__device__ __forceinline__ float DotPair(uint32_t pair, float low, float high,
                                         float sum) {
  return fmaf(WidenBf16(pair & 0xffff), low,
              fmaf(FloatOf(pair & 0xffff0000u), high, sum));
}

__device__ __forceinline__ float DotVector(const uint4& w, const float* x,
                                           float sum) {
  const float4 low = *reinterpret_cast<const float4*>(x);
  const float4 high = *reinterpret_cast<const float4*>(x + 4);
  sum = DotPair(w.x, low.x, low.y, sum);
  sum = DotPair(w.y, low.z, low.w, sum);
  sum = DotPair(w.z, high.x, high.y, sum);
  return DotPair(w.w, high.z, high.w, sum);
}

struct ValueRows {
  uint4 w[kRows][kVectors];
};

// Rows first, first + stride .. of the head; the last one where there is none.
__device__ ValueRows FetchRows(const MlaCall& call, int head, int first,
                               int stride) {
  ValueRows rows;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = min(first + r * stride, call.v_dim - 1);
    const auto* from = reinterpret_cast<const uint4*>(
        call.values + (size_t(head) * call.v_dim + row) * call.latent);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = lane + 32 * v;
      rows.w[r][v] = {0, 0, 0, 0};
      if (8 * at < call.latent) rows.w[r][v] = __ldcs(from + at);
    }
  }
  return rows;
}

// The sum over all lanes of sums[lane / kRowLanes]: lanes swap halves of what
// they have, so that seven values go from lane to lane for eight rows.
__device__ float SumRows(float sums[kRows]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 16, left = kRows / 2; left > 0; step /= 2, left /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int r = 0; r < left; ++r) {
      const float given = upper ? sums[r] : sums[r + left];
      const float kept = upper ? sums[r + left] : sums[r];
      sums[r] = kept + __shfl_xor_sync(kAllLanes, given, step);
    }
  }
#pragma unroll
  for (int step = kRowLanes / 2; step > 0; step /= 2) {
    sums[0] += __shfl_xor_sync(kAllLanes, sums[0], step);
  }
  return sums[0];
}

// A warp: rows first, first + kWarps .. for all tokens.
__device__ void MultiplyRows(const MlaCall& call, int first,
                             const ValueRows& rows, ValuesShared& shared) {
  const int lane = threadIdx.x % 32;
  for (int t = 0; t < call.num_tokens; ++t) {
    float sums[kRows] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = 8 * (lane + 32 * v);
      if (column >= call.latent) continue;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sums[r] = DotVector(rows.w[r][v], &shared.latents[t][column], sums[r]);
      }
    }
    const float mine = SumRows(sums);
    const int row = first + lane / kRowLanes * kWarps;
    if (lane % kRowLanes == 0 && row < call.v_dim) shared.out[t][row] = mine;
  }
}

// The head's values, gated; a warp a token, four values a lane.
__device__ void StoreValues(const MlaCall& call, int head,
                            const ValuesShared& shared) {
  const int d = threadIdx.x % 32 * 4;
  for (int t = threadIdx.x / 32; t < call.num_tokens; t += kWarps) {
    float v[4] = {};
    if (d < call.v_dim) {
      int part = 0, column = head * call.v_dim + d;
      while (part + 1 < MlaCall::kGateParts && column >= call.gate_rows) {
        column -= call.gate_rows;
        ++part;
      }
      const float4 gate = ProductSum4(call.gates[part], t, column);
      v[0] = shared.out[t][d] * Sigmoid(gate.x);
      v[1] = shared.out[t][d + 1] * Sigmoid(gate.y);
      v[2] = shared.out[t][d + 2] * Sigmoid(gate.z);
      v[3] = shared.out[t][d + 3] * Sigmoid(gate.w);
    }
    if (MlaPrepares(call)) {
      PrepareChunk(call.prepared, t, head, v);
    } else if (d < call.v_dim) {
      float* out = call.out + (size_t(t) * call.heads + head) * call.v_dim + d;
      for (int i = 0; i < 4; ++i) out[i] = v[i];
    }
  }
}

// A block a head.
__global__ void __launch_bounds__(kThreads)
    MlaValuesKernel(__grid_constant__ const ValuesCall values) {
  __shared__ ValuesShared shared;
  const MlaCall& call = values.call;
  const int head = blockIdx.x;
  const int warp = threadIdx.x / 32;
  const ValueRows rows = FetchRows(call, head, warp, kWarps);
  WaitForWork();
  WeighSplits(call, values.splits, head, shared);
  __syncthreads();
  JoinSplits(call, values.splits, head, shared);
  __syncthreads();
  LetNextCome();
  MultiplyRows(call, warp, rows, shared);
  __syncthreads();
  StoreValues(call, head, shared);
}

}  // namespace

cudaError_t LaunchMlaValues(const SpineTarget& target, const MlaCall& call) {
  const ValuesCall values = {call, MlaSplits(target, call)};
  return LaunchSpine(target, MlaValuesKernel, dim3(call.heads), kThreads, 0,
                     values);
}

}  // namespace deltafin::cuda
