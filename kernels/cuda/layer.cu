// The routed experts of a layer: one launch whose blocks stay and take units in
// order (unit_order.h) until none is left.
#include "kernels/cuda/launches.h"
#include "kernels/cuda/single_token.cuh"
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
  WarpStages stages[kWarps];
  QuadTurn turns[kWarps];
  alignas(16) uint8_t limbs[kProductTokens][kSliceGroups][kActivationBytes];
  ActivationHead heads[kProductTokens][kSliceGroups];
  alignas(16) uint8_t zero_limbs[kTileGroups][kActivationBytes];
  ActivationHead zero_heads[kTileGroups];
  float up[kUnitStrips][32][4];
  Pair pairs[kProductTokens];
  int next;
};
extern __shared__ __align__(16) uint8_t shared_memory[];

// A single token's activations, behind Shared where the launch has room.
struct LatentRow {
  uint8_t* limbs;
  ActivationHead* heads;

  __device__ explicit LatentRow(int groups)
      : limbs(shared_memory + sizeof(Shared)),
        heads(reinterpret_cast<ActivationHead*>(limbs +
                                                groups * kActivationBytes)) {}
};

constexpr int kLatentGroupBytes = kActivationBytes + sizeof(ActivationHead);
constexpr int kMostLatentBytes = 24 << 10;

// Bytes of a LatentRow; 0: too many.
DELTAFIN_HOST_DEVICE int LatentRowBytes(const LayerView& view) {
  const int bytes = view.shape.latent_size / kMxfp4Group * kLatentGroupBytes;
  return bytes <= kMostLatentBytes ? bytes : 0;
}

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

// All threads of a block.
__device__ void CopyToShared(const void* from, void* to, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += kThreads) {
    static_cast<uint4*>(to)[i] = __ldcg(static_cast<const uint4*>(from) + i);
  }
}

// The job's single token to shared memory.
__device__ void FetchLatent(const LayerView& view, const Job& job) {
  const int groups = view.shape.latent_size / kMxfp4Group;
  const size_t row =
      static_cast<size_t>(view.pairs[job.first_pair].token) * groups;
  const LatentRow to(groups);
  CopyToShared(view.latent.limbs + row * kActivationBytes, to.limbs,
               groups * kActivationBytes);
  CopyToShared(view.latent.heads + row, to.heads,
               groups * static_cast<int>(sizeof(ActivationHead)));
  __syncthreads();
}

// The warp's strip of gate or up.
__device__ __forceinline__ void MultiplyUp(const LayerView& view,
                                           const Job& job, StripTiles& tiles,
                                           bool once, Shared& shared,
                                           float y[4]) {
  const int groups = view.shape.latent_size / kMxfp4Group;
  if (once) {
    const LatentRow row(groups);
    MultiplyStripOnce(tiles, SingleActivations(row.limbs, row.heads, groups),
                      view.multipliers, shared.turns[Warp()], y);
    return;
  }
  const Pair* pairs = view.pairs + job.first_pair;
  MultiplyStrip<false>(
      tiles, groups,
      LaneActivations(view.latent, view.zeros, groups, job.num_pairs,
                      [&](int t) { return pairs[t].token; }),
      view.multipliers, y);
}

// SiTU of one lane's rows to the group that down reads.
__device__ void StoreInner(const LayerView& view, int job_index, const Job& job,
                           int strip, const float gate[4], const float up[4]) {
  const int t = Lane() % 4;
  const bool real = t < job.num_pairs;
  bool ok = AllFinite(gate) && AllFinite(up);
  float h[4];
  for (int i = 0; i < 4; ++i) h[i] = Situ(gate[i], up[i], view.situ);
  const size_t row = static_cast<size_t>(job_index) * kProductTokens + t;
  const size_t group = row * kSliceGroups + strip;
  ok &= StoreGroup(h, real, view.inner.limbs + group * kActivationBytes,
                   view.inner.heads + group);
  if (real && !ok) {
    ReportOverflow(view, job, view.pairs[job.first_pair + t].token);
  }
}

// 128 rows of gate and of up, then their SiTU as the groups that down reads.
__device__ void RunUp(const LayerView& view, int job_index, int part,
                      Shared& shared) {
  const Job job = view.jobs[job_index];
  const int groups = view.shape.latent_size / kMxfp4Group;
  const size_t matrix =
      static_cast<size_t>(job.columns) * groups * kGroupRowBytes;
  const int strip = part * kUnitStrips + Warp() % kUnitStrips;
  const bool is_up = Warp() >= kUnitStrips;
  const bool busy = strip * kStripRows < job.columns;
  StripTiles tiles(job.slice + (is_up ? matrix : 0), job.columns, strip,
                   busy ? groups : 0, shared.stages[Warp()]);
  const bool once = job.num_pairs == 1 && LatentRowBytes(view) > 0;
  if (once) FetchLatent(view, job);
  float y[4];
  if (busy) MultiplyUp(view, job, tiles, once, shared, y);
  float* up = shared.up[Warp() % kUnitStrips][Lane()];
  if (busy && is_up) {
    for (int i = 0; i < 4; ++i) up[i] = y[i];
  }
  __syncthreads();
  if (busy && !is_up) StoreInner(view, job_index, job, strip, y, up);
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
  const int groups = job.num_pairs * kSliceGroups;
  CopyToShared(view.inner.limbs + row * kActivationBytes, shared.limbs,
               groups * kActivationBytes);
  CopyToShared(view.inner.heads + row, shared.heads,
               groups * static_cast<int>(sizeof(ActivationHead)));
  if (threadIdx.x < job.num_pairs) {
    shared.pairs[threadIdx.x] = view.pairs[job.first_pair + threadIdx.x];
  }
  __syncthreads();
}

// Adds a strip's rows from `first_row` to its tokens' sums. Lane (g, c) holds
// rows 4g..4g+3 of token c and adds row 4g+c of each token.
__device__ void AddFixed(const LayerView& view, const Job& job,
                         const Pair* pairs, int first_row, const float y[4]) {
  const int row = Lane() % 4;
  for (int t = 0; t < job.num_pairs; ++t) {
    float value = 0;
    for (int i = 0; i < 4; ++i) {
      const float other = __shfl_sync(~0u, y[i], Lane() / 4 * 4 + t);
      value = i == row ? other : value;
    }
    const Pair pair = pairs[t];
    const double product =
        static_cast<double>(pair.weight) * static_cast<double>(value);  // exact
    if (!(fabs(product) < kFixedLimit)) ReportOverflow(view, job, pair.token);
    const long long term = __double2ll_rn(product * kFixedScale);
    auto* sums = reinterpret_cast<unsigned long long*>(view.sums);
    atomicAdd(sums + static_cast<size_t>(pair.token) * view.shape.latent_size +
                  first_row + Lane(),
              static_cast<unsigned long long>(term));
  }
}

// The warp's strip of a row block of down, from `first_row`, with its sums.
__device__ __forceinline__ void MultiplyDown(const LayerView& view,
                                             const Job& job, StripTiles& tiles,
                                             int first_row, Shared& shared) {
  const int groups = job.columns / kMxfp4Group;
  float y[4];
  if (job.num_pairs == 1) {
    MultiplyStripOnce(
        tiles,
        SingleActivations(&shared.limbs[0][0][0], &shared.heads[0][0], groups),
        view.multipliers, shared.turns[Warp()], y);
  } else {
    MultiplyStrip<true>(
        tiles, groups,
        LaneActivations({&shared.limbs[0][0][0], &shared.heads[0][0]},
                        {&shared.zero_limbs[0][0], shared.zero_heads},
                        kSliceGroups, job.num_pairs, [](int t) { return t; }),
        view.multipliers, y);
  }
  AddFixed(view, job, shared.pairs, first_row + Warp() * kStripRows, y);
}

// Row blocks of down from `first_row` that one stream of tiles can take: full
// ones of whole tiles, or a single one.
__device__ int BlocksInOneStream(const Job& job, int first_row, int end_row) {
  const bool whole = job.columns % kTileColumns == 0;
  const int full = (end_row - first_row) / kTileBlockRows;
  return whole && full > 0 ? full : 1;
}

// Row blocks of down. Their weights are on their way before their activations
// are there.
__device__ void RunDown(const LayerView& view, int job_index, int part,
                        Shared& shared) {
  const Job job = view.jobs[job_index];
  const int groups = job.columns / kMxfp4Group;
  const int latent = view.shape.latent_size;
  const uint8_t* down = job.slice + static_cast<size_t>(2) * job.columns *
                                        (latent / kMxfp4Group) * kGroupRowBytes;
  int row = part * kDownBlocks * kTileBlockRows;
  const int end = min(row + kDownBlocks * kTileBlockRows, latent);
  bool fetched = false;
  while (row < end) {
    const int blocks = BlocksInOneStream(job, row, end);
    const int rows = min(kTileBlockRows, end - row);
    const bool busy = Warp() * kStripRows < rows;
    StripTiles tiles(down + static_cast<size_t>(row) * groups * kGroupRowBytes,
                     rows, Warp(), busy ? blocks * groups : 0,
                     shared.stages[Warp()]);
    if (!fetched) FetchInner(view, job_index, job, shared);
    fetched = true;
    for (int b = 0; b < blocks; ++b, row += rows) {
      if (busy) MultiplyDown(view, job, tiles, row, shared);
    }
  }
}

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    RunLayer(LayerView view) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_memory);
  for (int i = threadIdx.x; i < kTileGroups * kActivationBytes; i += kThreads) {
    (&shared.zero_limbs[0][0])[i] = 0;
  }
  if (threadIdx.x < kTileGroups) shared.zero_heads[threadIdx.x] = {0, 0, 0, 0};
  const UnitOrder order = {view.counts->num_jobs, view.up_units(),
                           view.down_units(), view.lead};
  int position = blockIdx.x;
  while (position < order.size()) {
    // Asked for early, as the answer takes a while.
    int next = 0;
    if (threadIdx.x == 0) next = atomicAdd(&view.counts->next_unit, 1);
    const Unit unit = order.At(position);
    if (unit.down) {
      RunDown(view, unit.job, unit.part, shared);
    } else {
      RunUp(view, unit.job, unit.part, shared);
    }
    if (threadIdx.x == 0) shared.next = next;
    __syncthreads();  // `shared` is free after the next one
    position = shared.next;
    __syncthreads();
  }
}

}  // namespace

cudaError_t LayerBlocks(const LayerView& view, int* blocks) {
  int card = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&card);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors,
                                   cudaDevAttrMultiProcessorCount, card);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(RunLayer,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 sizeof(Shared) + kMostLatentBytes);
  }
  int each = 0;
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &each, RunLayer, kThreads, sizeof(Shared) + LatentRowBytes(view));
  }
  *blocks = each * multiprocessors;
  return error;
}

cudaError_t LaunchLayer(const LayerView& view, cudaStream_t stream) {
  RunLayer<<<view.blocks, kThreads, sizeof(Shared) + LatentRowBytes(view),
             stream>>>(view);
  return cudaGetLastError();
}

}  // namespace deltafin::cuda
