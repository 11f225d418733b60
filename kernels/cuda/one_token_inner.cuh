// kernels/cuda/one_token_inner.cuh
//
// How h of a slice goes from the warps that have it to those that need it, of
// any block: word by word, each with the number of the call beside it, by which
// a reader knows that it is there. So nobody clears or fences anything.
// Included by one file. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/one_token_inputs.cuh"

namespace deltafin::cuda {
namespace {

// Lane l's word of a group is the l-th of its limbs (ActivationOffset). The
// head is in two places where limb 1 has nothing.
constexpr int kStartLane = 18;
constexpr int kFieldsLane = 19;

__device__ volatile unsigned long long* HandedWord(const LayerView& view,
                                                   int job, int group) {
  const int of_token = SharedHeader().own.token * kMaxOneTokenJobs + job;
  return view.handed + (of_token * kSliceGroups + group) * 32 + Lane();
}

__device__ void ReportOverflow(const LayerView& view, int job) {
  const Header& header = SharedHeader();
  const auto expert = static_cast<unsigned long long>(header.experts[job]);
  atomicMin(&view.errors->overflow, expert << 32 | header.own.token);
}

// The warp's 32 rows of a unit: SiTU and its limbs.
__device__ void HandOver(const LayerView& view, Strip unit, float gate,
                         float up) {
  const bool ok = (BitsOf(gate) & kMagnitudeMask) < kInfinityBits &&
                  (BitsOf(up) & kMagnitudeMask) < kInfinityBits;
  const Quantized q = QuantizeGroup(Situ(gate, up, view.situ));
  uint8_t* limbs = SharedHeader().inner[Warp() / 2];
  StoreLimbs(q.value, limbs);
  __syncwarp();
  uint32_t word = reinterpret_cast<const uint32_t*>(limbs)[Lane()];
  __syncwarp();
  const ActivationHead head = HeadOf(q.field, q.sum);
  if (Lane() == kStartLane) word = static_cast<uint32_t>(head.start);
  if (Lane() == kFieldsLane) word = static_cast<uint32_t>(head.fields);
  *HandedWord(view, unit.job(), unit.part()) =
      static_cast<unsigned long long>(view.call) << 32 | word;
  const bool all_ok = __all_sync(kAllLanes, ok) && q.finite;
  if (!all_ok && Lane() == 0) ReportOverflow(view, unit.job());
}

// Waits for up to kAtOnce groups of a job from `first`.
constexpr int kAtOnce = 4;
__device__ void WaitForGroups(const LayerView& view, int job, int first,
                              int groups, uint32_t words[kAtOnce]) {
  bool there = false;
  while (!there) {
    there = true;
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
      if (first + g >= groups) break;
      const unsigned long long word = *HandedWord(view, job, first + g);
      there = there && static_cast<uint32_t>(word >> 32) == view.call;
      words[g] = static_cast<uint32_t>(word);
    }
    there = __all_sync(kAllLanes, there);
  }
}

// Waits for h of a job; it comes to the warp's shared memory.
__device__ void TakeOver(const LayerView& view, int job, int groups,
                         WarpShared& warp) {
#pragma unroll 1
  for (int first = 0; first < groups; first += kAtOnce) {
    uint32_t words[kAtOnce];
    WaitForGroups(view, job, first, groups, words);
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
      if (first + g >= groups) break;
      reinterpret_cast<uint32_t*>(warp.limbs[first + g])[Lane()] = words[g];
      const int32_t start = __shfl_sync(kAllLanes, words[g], kStartLane);
      const int32_t fields = __shfl_sync(kAllLanes, words[g], kFieldsLane);
      if (Lane() == 0) {
        warp.heads[first + g] = {start, 0, start - 256 * fields, fields};
      }
    }
  }
  if (Lane() == 0) warp.taken_over = job;
  __syncwarp();
}

}  // namespace
}  // namespace deltafin::cuda
