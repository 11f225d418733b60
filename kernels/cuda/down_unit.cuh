// kernels/cuda/down_unit.cuh
//
// A unit of down: row blocks whose weighted terms go to the tokens' sums.
// Part of layer.cu. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/strip_sources.cuh"
#include "kernels/fixed_point.h"

namespace deltafin::cuda {
namespace {

// Waits for the job's units of gate and up, then copies what they wrote.
template <int kDownBlocks>
__device__ void FetchInner(const LayerView& view, const Assignment& assigned,
                           Shared& shared) {
  const int job_index = assigned.task.job_index;
  if (threadIdx.x == 0) {
    const volatile int32_t* ready = view.ready + job_index;
    while (*ready < view.up_units()) __nanosleep(64);
    __threadfence();
  }
  __syncthreads();
  const size_t row =
      static_cast<size_t>(job_index) * kProductTokens * kSliceGroups;
  const int groups = assigned.task.job.num_pairs * kSliceGroups;
  CopyToShared(view.inner.limbs + row * kActivationBytes, shared.limbs,
               groups * kActivationBytes);
  CopyToShared(view.inner.heads + row, shared.heads,
               groups * static_cast<int>(sizeof(ActivationHead)));
  WriteNext<kDownBlocks>(view, assigned);
  __syncthreads();
}

// Adds the value of a row of an expert's output to its token's sum.
__device__ void AddFixed(const LayerView& view, const Job& job, Pair pair,
                         int row, float value) {
  const double product =
      static_cast<double>(pair.weight) * static_cast<double>(value);  // exact
  if (!(fabs(product) < kFixedLimit)) ReportOverflow(view, job, pair.token);
  const long long term = __double2ll_rn(product * kFixedScale);
  auto* sums = reinterpret_cast<unsigned long long*>(view.sums);
  atomicAdd(
      sums + static_cast<size_t>(pair.token) * view.shape.latent_size + row,
      static_cast<unsigned long long>(term));
}

// Adds a strip's rows to its tokens' sums. Lane (g, c) holds rows 4g..4g+3 of
// token c and adds row 4g+c of each token, `row` of the expert's output.
__device__ void AddFixedOfAll(const LayerView& view, const Task& task, int row,
                              const float y[4]) {
  for (int t = 0; t < task.job.num_pairs; ++t) {
    float value = 0;
    for (int i = 0; i < 4; ++i) {
      const float other = __shfl_sync(~0u, y[i], Lane() / 4 * 4 + t);
      value = i == Lane() % 4 ? other : value;
    }
    AddFixed(view, task.job, task.pairs[t], row, value);
  }
}

// The warp's strip of a row block of down, with its sums. row: the lane's.
__device__ __forceinline__ void MultiplyDown(const LayerView& view,
                                             const Task& task,
                                             StripTiles& tiles, int row,
                                             Shared& shared) {
  const Job& job = task.job;
  const int groups = job.columns / kMxfp4Group;
  const uint8_t* limbs = &shared.limbs[0][0][0];
  const ActivationHead* heads = &shared.heads[0][0];
  if (job.num_pairs == 1) {
    float value = 0;
    MultiplyStripOnce(tiles, SingleActivations({limbs, heads}, groups),
                      shared.zeros(), view.multipliers, &value);
    AddFixed(view, job, task.pairs[0], row, value);
    return;
  }
  float y[4] = {0, 0, 0, 0};
  MultiplyStrip(tiles, groups,
                LaneActivations({limbs, heads}, shared.zeros(), kSliceGroups,
                                job.num_pairs),
                view.multipliers, y);
  AddFixedOfAll(view, task, row, y);
}

// Row blocks of down. A lane of a block of 256 rows adds to the row that has
// the number of its thread there.
template <int kDownBlocks>
__device__ void RunDown(const LayerView& view, const Assignment& assigned,
                        StripTiles& tiles, Shared& shared) {
  static_assert(kThreads == kTileBlockRows);
  FetchInner<kDownBlocks>(view, assigned, shared);
  const Task& task = assigned.task;
  int row = DownRow<kDownBlocks>(task);
  bool more = true;
#pragma unroll 1
  while (more) {
    const int stop =
        row + BlocksInOneStream<kDownBlocks>(view, task, row) * kTileBlockRows;
    const bool busy = row + Warp() * kStripRows < view.shape.latent_size;
#pragma unroll 1
    for (; row < stop; row += kTileBlockRows) {
      if (busy) {
        MultiplyDown(view, task, tiles, row + static_cast<int>(threadIdx.x),
                     shared);
      }
    }
    more = row < DownEnd<kDownBlocks>(view, task);
    tiles = StripTiles(more ? DownSource<kDownBlocks>(view, task, row)
                            : FirstSource<kDownBlocks>(view, assigned.next),
                       shared.stages[Warp()]);
  }
}

}  // namespace
}  // namespace deltafin::cuda
