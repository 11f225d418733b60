// kernels/cuda/one_token_inputs.cuh
//
// The beginning of RunOneToken, which each block does for itself: its token's
// jobs and its limbs. Included by one file. Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/one_token_state.cuh"

namespace deltafin::cuda {
namespace {

__device__ void PrefetchPart(const TokenBlock& own, const void* data,
                             size_t bytes) {
  const size_t line = size_t{128} * (own.block + own.blocks * threadIdx.x);
  if (line >= bytes) return;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(
      static_cast<const uint8_t*>(data) + line));
}

__device__ const float* ValuesOf(const LayerView& view, int token) {
  return view.x + static_cast<ptrdiff_t>(token) * view.shape.latent_size;
}
__device__ const CudaExpertRoute* RoutesOf(const LayerView& view, int token) {
  return view.routes + static_cast<ptrdiff_t>(token) * view.top_k;
}

// While the launch before may still write them: the second-level cache is what
// all see alike.
__device__ void PrefetchInputs(const LayerView& view, const TokenBlock& own) {
  PrefetchPart(own, view.records, view.num_experts * sizeof(*view.records));
  PrefetchPart(own, ValuesOf(view, own.token),
               view.shape.latent_size * sizeof(*view.x));
  PrefetchPart(own, RoutesOf(view, own.token),
               view.top_k * sizeof(*view.routes));
}

// The token as it is, on its way to the places of its limbs: 128 bytes a group,
// too.
class Token {
 public:
  __device__ Token(const LayerView& view, int token)
      : parts_(view.shape.latent_size / 4) {
    const auto* x = reinterpret_cast<const uint4*>(ValuesOf(view, token));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (Part(i) < parts_) x_[i] = x[Part(i)];
    }
  }

  __device__ void ToShared() const {
    auto* x = reinterpret_cast<uint4*>(SharedLimbs());
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (Part(i) < parts_) x[Part(i)] = x_[i];
    }
  }

  // Values that a block of so many threads takes.
  static constexpr int Most(int threads) { return kEach * threads * 4; }

 private:
  static constexpr int kEach = 3;
  __device__ static int Part(int i) {
    return static_cast<int>(i * blockDim.x + threadIdx.x);
  }

  const int parts_;
  uint4 x_[kEach] = {};
};

struct Quantized {
  int32_t value;
  int32_t sum;  // of the warp's 32
  int field;
  bool finite;
};

// One group, a value a lane.
__device__ Quantized QuantizeGroup(float x) {
  const uint32_t largest =
      __reduce_max_sync(kAllLanes, BitsOf(x) & kMagnitudeMask);
  const bool finite = largest < kInfinityBits;
  const int field = finite ? ExponentField(largest) : kLowestExponentField;
  const int32_t value = finite ? QuantizedValue(x, field) : 0;
  return {value, __reduce_add_sync(kAllLanes, value), field, finite};
}

__device__ void StoreLimbs(int32_t value, uint8_t* limbs) {
  int8_t limb[3];
  SplitLimbs(value, limb);
  for (int l = 0; l < 3; ++l) {
    limbs[ActivationOffset(Lane(), l)] = static_cast<uint8_t>(limb[l]);
  }
}

// The token in shared memory to limbs and heads. All threads.
__device__ void QuantizeToken(const LayerView& view) {
  ActivationHead* heads = SharedHeads(view);
#pragma unroll 1  // code that runs once costs more to fetch than to run
  for (int g = Warp(); g < LatentGroups(view); g += Warps()) {
    uint8_t* limbs = SharedLimbs() + g * kActivationBytes;
    const float x = reinterpret_cast<const float*>(limbs)[Lane()];
    const Quantized q = QuantizeGroup(x);
    __syncwarp();  // all lanes have read theirs
    StoreLimbs(q.value, limbs);
    if (Lane() != 0) continue;
    heads[g] = HeadOf(q.field, q.sum);
    const TokenBlock& own = SharedHeader().own;
    if (!q.finite && own.block == 0) {
      atomicMin(&view.errors->not_finite_token,
                static_cast<uint32_t>(own.token));
    }
  }
}

__device__ bool IsLater() { return Warp() / 2 >= SharedHeader().early_pairs; }

__device__ void TakeShare(const LayerView& view, const TokenBlock& own,
                          int jobs) {
  const DownItems items = ChooseDownItems(
      jobs, LatentGroups(view), view.row_blocks_follow, own.blocks * Warps());
  const int early_part = EarlyPart(view.num_tokens, jobs, own.blocks);
  const BlockShare share =
      ShareOfBlock(jobs, early_part, items.of_job, own.block, own.blocks);
  const int early = Warps() / 2 / early_part;
  if (threadIdx.x == 0) {
    SharedHeader().share = share;
    SharedHeader().items = items;
    SharedHeader().early_pairs = early;
    SharedHeader().own = own;
    SharedHeader().next_down = 0;
  }
  if (Lane() != 0) return;
  WarpShared& warp = OwnShared(view);
  const int pair = Warp() / 2;
  if (pair >= early) {
    warp.next_up = share.first_up[1] + pair - early;
    warp.end_up = share.end_up[1];
    warp.up_step = Warps() / 2 - early;
  } else {
    warp.next_up = share.first_up[0] + pair;
    warp.end_up = share.end_up[0];
    warp.up_step = early;
  }
  warp.pushed = 0;
  warp.popped = 0;
  warp.taken_over = -1;
}
static_assert(kTileRows == kMxfp4Group);  // a vector's groups and strips

// The token's jobs, in the order of its routes, and the token as it is come to
// shared memory. A thread looks for one slice of one route. All threads.
__device__ void FindJobs(const LayerView& view, const TokenBlock& own,
                         const Token& token) {
  Header& header = SharedHeader();
  const int i = static_cast<int>(threadIdx.x) / view.slices_of_record;
  const int after = static_cast<int>(threadIdx.x) - i * view.slices_of_record;
  CudaExpertRoute route;
  CudaExpertRecord record;
  if (i < view.top_k) route = RoutesOf(view, own.token)[i];
  if (route.expert >= 0 && route.expert < view.num_experts) {
    record = view.records[route.expert];
  }
  const bool real = record.slices != nullptr && after < record.run.count;
  const unsigned in_warp = __ballot_sync(kAllLanes, real);
  if (Lane() == 0) header.warp_jobs[Warp()] = __popc(in_warp);
  token.ToShared();
  __syncthreads();
  const int of_warp = Lane() < Warps() ? header.warp_jobs[Lane()] : 0;
  const int before =
      __reduce_add_sync(kAllLanes, Lane() < Warp() ? of_warp : 0);
  if (real) {
    const int job = before + __popc(in_warp & ((1u << Lane()) - 1));
    const int slice = record.run.first + after;
    header.experts[job] = route.expert;
    header.jobs[job] = {
        record.slices + (view.shape.slice_offset(slice) -
                         view.shape.slice_offset(record.run.first)),
        view.shape.slice_columns(slice), route.weight};
  }
  TakeShare(view, own, __reduce_add_sync(kAllLanes, of_warp));
  __syncthreads();
}

}  // namespace
}  // namespace deltafin::cuda
