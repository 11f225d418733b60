// kernels/cuda/up_unit.cuh
//
// A unit of gate and up: 128 rows of each, then SiTU and the limbs of h.
// Part of layer.cu. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/strip_sources.cuh"

namespace deltafin::cuda {
namespace {

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

// `count` groups from `first` of the tokens of `pairs`, one token after the
// other, to shared memory.
__device__ void FetchLatent(const LayerView& view, const Pair* pairs,
                            int num_tokens, int first, int count,
                            Shared& shared) {
  const int groups = view.shape.latent_size / kMxfp4Group;
  const auto row = [&](int t) {
    return static_cast<size_t>(pairs[t].token) * groups + first;
  };
  constexpr int kParts = kActivationBytes / 16;  // of a group
  auto* limbs = reinterpret_cast<uint4*>(&shared.latent_limbs[0][0]);
  auto* heads = reinterpret_cast<uint4*>(shared.latent_heads);
  const auto* all_limbs = reinterpret_cast<const uint4*>(view.latent.limbs);
  const auto* all_heads = reinterpret_cast<const uint4*>(view.latent.heads);
  const int thread = threadIdx.x;
#pragma unroll 4
  for (int i = thread; i < num_tokens * count * kParts; i += kThreads) {
    const int t = i / (count * kParts);
    limbs[i] = __ldcg(all_limbs + row(t) * kParts + (i - t * count * kParts));
  }
  for (int i = thread; i < num_tokens * count; i += kThreads) {
    const int t = i / count;
    heads[i] = __ldcg(all_heads + row(t) + (i - t * count));
  }
}

// Row 4g+c of lane (g, c) to rows 4g..4g+3 in every lane of the quad.
__device__ void SpreadRow(float row, float y[4]) {
  for (int i = 0; i < 4; ++i) y[i] = __shfl_sync(~0u, row, i, 4);
}

// The warp's strip of gate or up, where it has one. All threads of a block.
template <int kDownBlocks>
__device__ __forceinline__ void MultiplyUp(const LayerView& view,
                                           const Assignment& assigned,
                                           StripTiles& tiles, bool busy,
                                           Shared& shared, float y[4]) {
  const int groups = view.shape.latent_size / kMxfp4Group;
  const int num_tokens = assigned.task.job.num_pairs;
  const int step = kLatentGroups / num_tokens / kStageGroups * kStageGroups;
  const uint8_t* limbs = &shared.latent_limbs[0][0];
  float row = 0;
  for (int i = 0; i < 4; ++i) y[i] = 0;
#pragma unroll 1
  for (int first = 0; first < groups; first += step) {
    const int count = min(step, groups - first);
    __syncthreads();  // the tokens are there, the groups before were read
    FetchLatent(view, assigned.task.pairs, num_tokens, first, count, shared);
    if (first == 0) WriteNext<kDownBlocks>(view, assigned);
    __syncthreads();
    if (busy && num_tokens == 1) {
      MultiplyStripOnce(tiles,
                        SingleActivations({limbs, shared.latent_heads}, count),
                        shared.zeros(), view.multipliers, &row);
    } else if (busy) {
      MultiplyStrip(tiles, count,
                    LaneActivations({limbs, shared.latent_heads},
                                    shared.zeros(), count, num_tokens),
                    view.multipliers, y);
    }
  }
  if (num_tokens == 1) SpreadRow(row, y);
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
template <int kDownBlocks>
__device__ void RunUp(const LayerView& view, const Assignment& assigned,
                      StripTiles& tiles, Shared& shared) {
  const Task& task = assigned.task;
  const int strip = UpStrip(task);
  const bool is_up = Warp() >= kUnitStrips;
  const bool busy = strip * kStripRows < task.job.columns;
  float y[4];
  MultiplyUp<kDownBlocks>(view, assigned, tiles, busy, shared, y);
  tiles = StripTiles(FirstSource<kDownBlocks>(view, assigned.next),
                     shared.stages[Warp()]);
  float* up = shared.up[Warp() % kUnitStrips][Lane()];
  if (busy && is_up) {
    for (int i = 0; i < 4; ++i) up[i] = y[i];
  }
  __syncthreads();
  if (busy && !is_up) {
    StoreInner(view, task.job_index, task.job, strip, y, up);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&view.ready[task.job_index], 1);
}

}  // namespace
}  // namespace deltafin::cuda
