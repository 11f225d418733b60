// kernels/cuda/block_state.cuh
//
// What a block of the layer's kernel keeps in shared memory, and how it takes
// units: the next one is known before this one begins, so that its weights are
// on their way before this one has ended. Part of layer.cu. Private to
// kernels/cuda/.
#pragma once

#include "kernels/cuda/single_token.cuh"
#include "kernels/cuda/strip.cuh"
#include "kernels/cuda/unit_order.h"

namespace deltafin::cuda {
namespace {

constexpr int kStripRows = kTileRows;  // a warp multiplies these
constexpr int kUnitStrips = kUpRows / kStripRows;
constexpr int kWarps = kTileBlockRows / kStripRows;
constexpr int kThreads = 32 * kWarps;
static_assert(kWarps == 2 * kUnitStrips);

// Groups of all of a job's tokens together that shared memory takes at once:
// the full model's latent vector.
constexpr int kLatentGroups = 112;

enum class Work { kNone, kUp, kDown };

// A unit that a block has taken.
struct Task {
  Job job;
  Pair pairs[kProductTokens];
  int job_index;
  int part;
  Work work;
};

struct Shared {
  WarpStages stages[kWarps];
  alignas(16) uint8_t latent_limbs[kLatentGroups][kActivationBytes];
  ActivationHead latent_heads[kLatentGroups];
  alignas(16) uint8_t limbs[kProductTokens][kSliceGroups][kActivationBytes];
  ActivationHead heads[kProductTokens][kSliceGroups];
  alignas(16) uint8_t zero_limbs[kStageGroups][kActivationBytes];
  ActivationHead zero_heads[kStageGroups];
  float up[kUnitStrips][32][4];
  // Of this unit and the next one, whose weights are asked for before this one
  // has ended.
  Task tasks[2];

  __device__ SharedActivations zeros() const {
    return {&zero_limbs[0][0], zero_heads};
  }
};
extern __shared__ __align__(128) uint8_t shared_memory[];

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }

// All threads of a block.
__device__ void CopyToShared(const void* from, void* to, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += kThreads) {
    static_cast<uint4*>(to)[i] = __ldcg(static_cast<const uint4*>(from) + i);
  }
}

__device__ void ReportOverflow(const LayerView& view, const Job& job,
                               int token) {
  const auto key = static_cast<unsigned long long>(job.expert) << 32 |
                   static_cast<unsigned>(token);
  atomicMin(&view.errors->overflow, key);
}

// The task at a position of the order, but for its pairs.
template <int kDownBlocks>
__device__ void WriteTask(const LayerView& view, int position, Task& task) {
  constexpr int kRows = kDownBlocks * kTileBlockRows;
  const UnitOrder order = {view.counts->num_jobs, view.up_units(),
                           (view.shape.latent_size + kRows - 1) / kRows,
                           view.lead};
  task.work = Work::kNone;
  if (position >= order.size()) return;
  const Unit unit = order.At(position);
  task.job = view.jobs[unit.job];
  task.job_index = unit.job;
  task.part = unit.part;
  task.work = unit.down ? Work::kDown : Work::kUp;
}

// What a block works on.
struct Assignment {
  Task& task;
  Task& next;
  int taken;  // in thread 0: position of the next task
};

// The beginning of a unit, before its first barrier: thread 0 takes the next
// one, and the pairs come to shared memory.
__device__ Assignment BeginUnit(const LayerView& view, int slot,
                                Shared& shared) {
  Task& task = shared.tasks[slot];
  int taken = 0;
  if (threadIdx.x == 0) taken = atomicAdd(&view.counts->next_unit, 1);
  if (threadIdx.x < task.job.num_pairs) {
    task.pairs[threadIdx.x] = view.pairs[task.job.first_pair + threadIdx.x];
  }
  return {task, shared.tasks[slot ^ 1], taken};
}

// Between the unit's first two barriers.
template <int kDownBlocks>
__device__ void WriteNext(const LayerView& view, const Assignment& assigned) {
  if (threadIdx.x == 0)
    WriteTask<kDownBlocks>(view, assigned.taken, assigned.next);
}

}  // namespace
}  // namespace deltafin::cuda
