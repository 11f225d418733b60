// The routed experts of a layer: one launch whose blocks stay and take units in
// order (unit_order.h) until none is left.
#include "kernels/cuda/launches.h"
#include "kernels/cuda/strip.cuh"
#include "kernels/cuda/unit_order.h"
#include "kernels/fixed_point.h"

namespace deltafin::cuda {
namespace {

constexpr int kStripRows = kTileRows;  // a warp multiplies these
constexpr int kUnitStrips = kUpRows / kStripRows;
constexpr int kWarps = kTileBlockRows / kStripRows;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocksPerMultiprocessor = 3;
static_assert(kWarps == 2 * kUnitStrips);

struct Shared {
  alignas(16) uint8_t limbs[kProductTokens][kSliceGroups][kActivationBytes];
  ActivationHead heads[kProductTokens][kSliceGroups];
  float up[kUnitStrips][32][4];
  int unit;
};

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }

__device__ void ReportOverflow(const LayerView& view, const Job& job,
                               int token) {
  const auto key = static_cast<unsigned long long>(job.expert) << 32 |
                   static_cast<unsigned>(token);
  atomicMin(&view.errors->overflow, key);
}

__device__ bool AllFinite(const float y[4]) {
  bool finite = true;
  for (int i = 0; i < 4; ++i) {
    finite = finite && (BitsOf(y[i]) & kMagnitudeMask) < kInfinityBits;
  }
  return finite;
}

// One lane's four rows of h for its token to the limbs of the slice's group:
// the eight lanes of a token hold the group's 32 values. False: not finite.
__device__ bool StoreGroup(const float h[4], bool real, uint8_t* limbs,
                           ActivationHead* head) {
  const int first = Lane() / 4 * 4;
  uint32_t largest = 0;
  for (int i = 0; i < 4; ++i) {
    largest = max(largest, BitsOf(h[i]) & kMagnitudeMask);
  }
  for (int step = 4; step < 32; step *= 2) {
    largest = max(largest, __shfl_xor_sync(~0u, largest, step));
  }
  const bool finite = largest < kInfinityBits;
  const int field = finite ? ExponentField(largest) : kLowestExponentField;
  uint32_t words[3] = {0, 0, 0};
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    const int32_t value = QuantizedValue(h[i], field);
    int8_t limb[3];
    SplitLimbs(value, limb);
    for (int l = 0; l < 3; ++l) {
      words[l] |= static_cast<uint32_t>(static_cast<uint8_t>(limb[l])) << 8 * i;
    }
    sum += value;
  }
  for (int step = 4; step < 32; step *= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
  }
  if (!real) return true;
  for (int l = 0; l < 3; ++l) {
    *reinterpret_cast<uint32_t*>(limbs + ActivationOffset(first, l)) = words[l];
  }
  *reinterpret_cast<uint32_t*>(limbs + ActivationOffset(first, 1) + 8) = 0;
  if (first == 0) *head = HeadOf(field, sum);
  return finite;
}

// 128 rows of gate and of up, then their SiTU as the groups that down reads.
__device__ void RunUp(const LayerView& view, int job_index, int part,
                      Shared& shared) {
  const Job job = view.jobs[job_index];
  const int groups = view.shape.latent_size / kMxfp4Group;
  const int strip = part * kUnitStrips + Warp() % kUnitStrips;
  const bool is_up = Warp() >= kUnitStrips;
  const bool busy = strip * kStripRows < job.columns;
  float y[4] = {0, 0, 0, 0};
  if (busy) {
    const Pair* pairs = view.pairs + job.first_pair;
    const size_t matrix = static_cast<size_t>(job.columns) * groups * 17;
    MultiplyStrip<false>(
        StripTiles(job.slice + (is_up ? matrix : 0), job.columns, strip,
                   groups),
        LaneActivations(view.latent.limbs, view.latent.heads, groups,
                        job.num_pairs, [&](int t) { return pairs[t].token; }),
        view.multipliers, y);
    if (is_up) {
      for (int i = 0; i < 4; ++i) {
        shared.up[Warp() % kUnitStrips][Lane()][i] = y[i];
      }
    }
  }
  __syncthreads();
  if (busy && !is_up) {
    const float* up = shared.up[Warp()][Lane()];
    const int t = Lane() % 4;
    const bool real = t < job.num_pairs;
    bool ok = AllFinite(y) && AllFinite(up);
    float h[4];
    for (int i = 0; i < 4; ++i) h[i] = Situ(y[i], up[i], view.situ);
    const size_t row = static_cast<size_t>(job_index) * kProductTokens + t;
    const size_t group = row * kSliceGroups + strip;
    ok &= StoreGroup(h, real, view.inner.limbs + group * kActivationBytes,
                     view.inner.heads + group);
    if (real && !ok) {
      ReportOverflow(view, job, view.pairs[job.first_pair + t].token);
    }
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&view.ready[job_index], 1);
}

// Waits for the job's units of gate and up, then copies what they wrote.
__device__ void FetchInner(const LayerView& view, int job_index, const Job& job,
                           Shared& shared) {
  if (threadIdx.x == 0) {
    const volatile int32_t* ready = view.ready + job_index;
    while (*ready < view.up_units()) __nanosleep(64);
    __threadfence();
  }
  __syncthreads();
  const size_t row =
      static_cast<size_t>(job_index) * kProductTokens * kSliceGroups;
  const auto* limbs =
      reinterpret_cast<const uint4*>(view.inner.limbs + row * kActivationBytes);
  auto* to = reinterpret_cast<uint4*>(shared.limbs);
  const int words = job.num_pairs * kSliceGroups * (kActivationBytes / 16);
  for (int i = threadIdx.x; i < words; i += kThreads) to[i] = __ldcg(limbs + i);
  const auto* heads = reinterpret_cast<const int2*>(view.inner.heads + row);
  for (int i = threadIdx.x; i < job.num_pairs * kSliceGroups; i += kThreads) {
    reinterpret_cast<int2*>(shared.heads)[i] = __ldcg(heads + i);
  }
  __syncthreads();
}

// Adds one lane's rows to its token's sums.
__device__ void AddFixed(const LayerView& view, const Job& job, int row,
                         const float y[4]) {
  const int t = Lane() % 4;
  if (t >= job.num_pairs) return;
  const Pair pair = view.pairs[job.first_pair + t];
  auto* sums = reinterpret_cast<unsigned long long*>(
      view.sums + static_cast<size_t>(pair.token) * view.shape.latent_size +
      row);
  bool ok = true;
  for (int i = 0; i < 4; ++i) {
    const double product =
        static_cast<double>(pair.weight) * static_cast<double>(y[i]);  // exact
    ok = ok && fabs(product) < kFixedLimit;
    const long long term = __double2ll_rn(product * kFixedScale);
    atomicAdd(sums + i, static_cast<unsigned long long>(term));
  }
  if (!ok) ReportOverflow(view, job, pair.token);
}

// One row block of down.
__device__ void RunDown(const LayerView& view, int job_index, int part,
                        Shared& shared) {
  const Job job = view.jobs[job_index];
  FetchInner(view, job_index, job, shared);
  const int groups = job.columns / kMxfp4Group;
  const int latent = view.shape.latent_size;
  const int first_row = part * kTileBlockRows;
  const int rows = min(kTileBlockRows, latent - first_row);
  const int row = Warp() * kStripRows;
  if (row >= rows) return;
  const size_t matrix =
      static_cast<size_t>(job.columns) * (latent / kMxfp4Group) * 17;
  const uint8_t* block =
      job.slice + 2 * matrix + static_cast<size_t>(first_row) * groups * 17;
  float y[4] = {0, 0, 0, 0};
  MultiplyStrip<true>(
      StripTiles(block, rows, Warp(), groups),
      LaneActivations(&shared.limbs[0][0][0], &shared.heads[0][0], kSliceGroups,
                      job.num_pairs, [](int t) { return t; }),
      view.multipliers, y);
  AddFixed(view, job, first_row + row + Lane() / 4 * 4, y);
}

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    RunLayer(LayerView view) {
  __shared__ Shared shared;
  const UnitOrder order = {view.counts->num_jobs, view.up_units(),
                           view.down_units(), view.lead};
  while (true) {
    __syncthreads();  // the unit before is done with `shared`
    if (threadIdx.x == 0) shared.unit = atomicAdd(&view.counts->next_unit, 1);
    __syncthreads();
    const int position = shared.unit;
    if (position >= order.size()) return;
    const Unit unit = order.At(position);
    if (unit.down) {
      RunDown(view, unit.job, unit.part, shared);
    } else {
      RunUp(view, unit.job, unit.part, shared);
    }
  }
}

}  // namespace

cudaError_t LayerBlocks(int* blocks) {
  int card = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&card);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors,
                                   cudaDevAttrMultiProcessorCount, card);
  }
  int each = 0;
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, RunLayer,
                                                          kThreads, 0);
  }
  *blocks = each * multiprocessors;
  return error;
}

cudaError_t LaunchLayer(const LayerView& view, int blocks,
                        cudaStream_t stream) {
  RunLayer<<<blocks, kThreads, 0, stream>>>(view);
  return cudaGetLastError();
}

}  // namespace deltafin::cuda
