// Kimi delta attention between its projections (docs/model.md 4.3 and 4.4): a
// block has one head of one sequence, keeps the head's matrix in registers and
// walks over the sequence's tokens of the step.
#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kParts = 4;    // of the keys; a thread has one value of one part
constexpr int kHistory = 3;  // raw inputs before the step
constexpr int kStreams = 3;  // q, k, v

template <int kDim>
struct alignas(16) KdaShared {
  float raw[kStreams][kHistory + kSpineTokens][kDim];
  float in[kStreams][kSpineTokens][kDim];  // after convolution and norm
  float low[kSpineTokens][kDim];           // f_a
  float decay_parts[kParts][kSpineTokens][kDim];
  float decay[kSpineTokens][kDim];
  float gate[kSpineTokens][kDim];
  float beta[kSpineTokens];
  float sums[2][kParts][kDim];
  float out[kSpineTokens][kDim];
};

// The thread's place: value `d` of a head, keys kPart * kDim / kParts ..
template <int kDim>
struct Thread {
  int part = threadIdx.x / kDim;
  int d = threadIdx.x % kDim;
};

// Raw inputs before the step that a thread of part q, k or v fetched.
struct History {
  float values[kHistory] = {};
};

template <int kDim>
__device__ History LoadHistory(const KdaCall& call, const KdaSlice& slice,
                               int head) {
  const Thread<kDim> at;
  History history;
  if (at.part >= kStreams) return history;
  const int width = call.heads * kDim;
  const float* rows = slice.history[at.part] + head * kDim + at.d;
  for (int j = 0; j < kHistory; ++j) history.values[j] = rows[j * width];
  return history;
}

// Projections and history to shared memory, a part a projection (q, k, v, g);
// the history moves on.
template <int kDim>
__device__ void LoadRaw(const KdaCall& call, const KdaSlice& slice, int head,
                        const History& history, KdaShared<kDim>& shared) {
  const Thread<kDim> at;
  const int column = head * kDim + at.d;
  const int width = call.heads * kDim;
  const ProductView& view = at.part == 0   ? call.q
                            : at.part == 1 ? call.k
                            : at.part == 2 ? call.v
                                           : call.g;
  float raw[kSpineTokens];
  if (slice.count == 1) {
    raw[0] = ProductSum(view, slice.first_row, column);
  } else {
    ProductSumTokens(view, slice.first_row, column, raw);
  }
  for (int t = at.part; t < slice.count; t += kParts) {
    shared.low[t][at.d] = ProductSum(call.f_a, slice.first_row + t, at.d);
  }
  if (at.part == kStreams && at.d < slice.count) {
    shared.beta[at.d] =
        Sigmoid(ProductSum(call.b, slice.first_row + at.d, head));
  }
#pragma unroll
  for (int t = 0; t < kSpineTokens; ++t) {
    if (t >= slice.count) continue;
    if (at.part == kStreams) {
      shared.gate[t][at.d] = Sigmoid(raw[t]);
    } else {
      shared.raw[at.part][kHistory + t][at.d] = raw[t];
    }
  }
  if (at.part == kStreams) return;
  for (int j = 0; j < kHistory; ++j) {
    shared.raw[at.part][j][at.d] = history.values[j];
  }
  float* rows = slice.history[at.part] + column;
  for (int j = 0; j < kHistory; ++j) {  // the thread's own writes
    rows[j * width] = shared.raw[at.part][slice.count + j][at.d];
  }
}

template <int kDim>
__device__ void Convolve(const KdaCall& call, const KdaSlice& slice, int head,
                         KdaShared<kDim>& shared) {
  const Thread<kDim> at;
  for (int s = 0; s < kStreams; ++s) {
    const float4 taps =
        reinterpret_cast<const float4*>(call.taps[s])[head * kDim + at.d];
    for (int t = at.part; t < slice.count; t += kParts) {
      const float y = fmaf(taps.w, shared.raw[s][t + 3][at.d],
                           fmaf(taps.z, shared.raw[s][t + 2][at.d],
                                fmaf(taps.y, shared.raw[s][t + 1][at.d],
                                     taps.x * shared.raw[s][t][at.d])));
      shared.in[s][t][at.d] = y * Sigmoid(y);
    }
  }
}

// q and k of unit length; q also carries dim^-0.5. A warp a row.
template <int kDim>
__device__ void NormalizeKeys(const KdaCall& call, const KdaSlice& slice,
                              KdaShared<kDim>& shared) {
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < 2 * slice.count;
       row += blockDim.x / 32) {
    float* v = shared.in[row % 2][row / 2];
    float squares = 0;
    for (int d = lane; d < kDim; d += 32) squares = fmaf(v[d], v[d], squares);
    const float inverse = 1.0f / sqrtf(WarpSum(squares) + call.l2_eps);
    const float scale = row % 2 == 0
                            ? inverse * (1.0f / sqrtf(static_cast<float>(kDim)))
                            : inverse;
    for (int d = lane; d < kDim; d += 32) v[d] *= scale;
  }
}

// decay = exp(bound * sigmoid(rate * (f_b low + dt_bias))).
template <int kDim>
__device__ void ComputeDecay(const KdaCall& call, const KdaSlice& slice,
                             int head, const uint32_t* f_b,
                             KdaShared<kDim>& shared) {
  constexpr int kColumns = kDim / kParts;
  const Thread<kDim> at;
  for (int t = 0; t < slice.count; ++t) {
    const float* low = shared.low[t] + at.part * kColumns;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      sum = fmaf(WidenBf16(f_b[i] & 0xffff), low[2 * i], sum);
      sum = fmaf(FloatOf(f_b[i] & 0xffff0000u), low[2 * i + 1], sum);
    }
    shared.decay_parts[at.part][t][at.d] = sum;
  }
  __syncthreads();
  for (int t = at.part; t < slice.count; t += kParts) {
    float r = shared.decay_parts[0][t][at.d];
    for (int p = 1; p < kParts; ++p) r += shared.decay_parts[p][t][at.d];
    r += call.dt_bias[head * kDim + at.d];
    shared.decay[t][at.d] =
        Exp(call.bound * Sigmoid(call.decay_rate[head] * r));
  }
}

template <int kDim>
__device__ float SumParts(const float (&sums)[kParts][kDim], int d) {
  float sum = sums[0][d];
  for (int p = 1; p < kParts; ++p) sum += sums[p][d];
  return sum;
}

// Four values of a row in shared memory, the same for all lanes of a warp.
__device__ __forceinline__ void Read4(const float* from, float v[4]) {
  const float4 all = *reinterpret_cast<const float4*>(from);
  v[0] = all.x;
  v[1] = all.y;
  v[2] = all.z;
  v[3] = all.w;
}

// One token: the matrix decays, predicts, takes the correction, answers.
template <int kDim>
__device__ void Step(int t, float (&state)[kDim / kParts],
                     KdaShared<kDim>& shared) {
  constexpr int kKeys = kDim / kParts;
  const Thread<kDim> at;
  const float* decay = shared.decay[t] + at.part * kKeys;
  const float* key = shared.in[1][t] + at.part * kKeys;
  const float* query = shared.in[0][t] + at.part * kKeys;
  float predicted = 0;
#pragma unroll
  for (int i = 0; i < kKeys; i += 4) {
    float a[4], k[4];
    Read4(decay + i, a);
    Read4(key + i, k);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      state[i + j] *= a[j];
      predicted = fmaf(k[j], state[i + j], predicted);
    }
  }
  shared.sums[0][at.part][at.d] = predicted;
  __syncthreads();
  const float correction =
      shared.beta[t] *
      (shared.in[2][t][at.d] - SumParts<kDim>(shared.sums[0], at.d));
  float answer = 0;
#pragma unroll
  for (int i = 0; i < kKeys; i += 4) {
    float k[4], q[4];
    Read4(key + i, k);
    Read4(query + i, q);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      state[i + j] = fmaf(k[j], correction, state[i + j]);
      answer = fmaf(q[j], state[i + j], answer);
    }
  }
  shared.sums[1][at.part][at.d] = answer;
  __syncthreads();
  if (at.part == 0) {
    shared.out[t][at.d] = SumParts<kDim>(shared.sums[1], at.d);
  }
}

// RMSNorm over the head, gated; a warp a token, four values a lane.
template <int kDim>
__device__ void StoreOut(const KdaCall& call, const KdaSlice& slice, int head,
                         const KdaShared<kDim>& shared) {
  const int d = threadIdx.x % 32 * 4;
  const int width = call.heads * kDim;
  for (int t = threadIdx.x / 32; t < slice.count; t += blockDim.x / 32) {
    float v[4] = {};
    for (int i = 0; i < 4 && d < kDim; ++i) v[i] = shared.out[t][d + i];
    const float squares = WarpSum(
        fmaf(v[0], v[0], fmaf(v[1], v[1], fmaf(v[2], v[2], v[3] * v[3]))));
    const float inverse =
        1.0f / sqrtf(squares / static_cast<float>(kDim) + call.norm_eps);
    const int row = slice.first_row + t;
    for (int i = 0; i < 4 && d < kDim; ++i) {
      v[i] *= inverse * call.o_norm[d + i] * shared.gate[t][d + i];
    }
    if constexpr (kDim == kPreparedColumns) {
      PrepareChunk(call.prepared, row, head, v);
    } else {
      float* out = call.out + size_t(row) * width + head * kDim + d;
      for (int i = 0; i < 4 && d < kDim; ++i) out[i] = v[i];
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kParts* kDim)
    KdaKernel(__grid_constant__ const KdaCall call) {
  constexpr int kKeys = kDim / kParts;
  extern __shared__ float4 memory[];
  auto& shared = *reinterpret_cast<KdaShared<kDim>*>(memory);
  const Thread<kDim> at;
  const int head = blockIdx.x;
  const KdaSlice& slice = call.slices[blockIdx.y];
  // Before the projections are there: the state, f_b and the history.
  float* matrix = slice.matrix + (size_t(head) * kDim + at.part * kKeys) * kDim;
  float state[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) state[i] = __ldcs(matrix + i * kDim + at.d);
  uint32_t f_b[kKeys / 2];
  const auto* row = reinterpret_cast<const uint32_t*>(
      call.f_b + size_t(head * kDim + at.d) * kDim + at.part * kKeys);
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) f_b[i] = __ldcs(row + i);
  const History history = LoadHistory<kDim>(call, slice, head);
  WaitForWork();
  LoadRaw(call, slice, head, history, shared);
  __syncthreads();
  LetNextCome();
  Convolve(call, slice, head, shared);
  ComputeDecay(call, slice, head, f_b, shared);
  NormalizeKeys(call, slice, shared);
  __syncthreads();
  for (int t = 0; t < slice.count; ++t) Step(t, state, shared);
#pragma unroll
  for (int i = 0; i < kKeys; ++i) __stcs(matrix + i * kDim + at.d, state[i]);
  __syncthreads();
  StoreOut(call, slice, head, shared);
}

template <int kDim>
cudaError_t Launch(const SpineTarget& target, const KdaCall& call) {
  constexpr size_t kBytes = sizeof(KdaShared<kDim>);
  static const cudaError_t allowed = cudaFuncSetAttribute(
      KdaKernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(kBytes));
  if (allowed != cudaSuccess) return allowed;
  return LaunchSpine(target, KdaKernel<kDim>, dim3(call.heads, call.num_slices),
                     kParts * kDim, kBytes, call);
}

}  // namespace

cudaError_t LaunchKda(const SpineTarget& target, const KdaCall& call) {
  switch (call.dim) {
    case 16:
      return Launch<16>(target, call);
    case 32:
      return Launch<32>(target, call);
    case 64:
      return Launch<64>(target, call);
    case 128:
      return Launch<128>(target, call);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace deltafin::cuda
