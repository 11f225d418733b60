// kernels/cuda/single_token.cuh
//
// MultiplyStrip for one token, which is most of decoding: the columns of the
// matrix instruction that other tokens would have take another group instead.
// Included by one file of a kernel. Private to kernels/cuda/.
//
// Two groups go into the same sums, group j with its three limbs in columns 4j,
// 4j+1 and 4j+2 and zeros elsewhere, so that one instruction does for all
// limbs. Lane (g, c) ends with two limbs (c even) or one (c odd) of group c / 2
// of rows 4g..4g+3. After four groups the quad adds and turns its numbers
// (StripTiles::TurnQuad), and each lane runs the chain of its own row.
#pragma once

#include "kernels/cuda/strip.cuh"

namespace deltafin::cuda {
namespace {

constexpr int kSetGroups = 2;  // in the same sums
constexpr int kStageSets = kStageGroups / kSetGroups;
static_assert(kStageSets == 2);

// The activations of the token's next four groups, in shared memory. What a
// lane has nothing of are zeros that it reads again and again.
struct SingleActivations {
  uint32_t limbs;  // the lane's limb of its group of two
  uint32_t head;   // of group c / 2
  int left;        // groups from the first one to the end

  __device__ __forceinline__ SingleActivations(SharedActivations all,
                                               int groups)
      : left(groups) {
    limbs = SharedAddress(all.limbs) + OwnGroup() * kActivationBytes +
            Column() * 16 + LimbOffset();
    head = SharedAddress(all.heads + Column() / 2);
  }

  // Of the lane: c; and what its column of the right operand has.
  __device__ __forceinline__ static int Column() { return threadIdx.x % 4; }
  __device__ __forceinline__ static int Limb() { return threadIdx.x / 4 % 4; }
  // From the lane's part of limb 0 of a group (ActivationOffset).
  __device__ __forceinline__ static int LimbOffset() {
    if (Limb() == 1) return 64;
    return Limb() == 2 ? 8 : 0;
  }
  __device__ __forceinline__ static int OwnGroup() {
    return threadIdx.x / 16 % 2;
  }

  __device__ __forceinline__ void Step() {
    limbs += kStageGroups * kActivationBytes;
    head += kStageGroups * kHeadBytes;
    left -= kStageGroups;
  }
};

// The stage's groups; kAll: REQUIRES all four are there, else the `x.left` that
// are.
template <bool kAll, typename Tiles>
__device__ __forceinline__ void AddStageOnce(Tiles& tiles,
                                             const SingleActivations& x,
                                             SharedActivations zeros,
                                             Multipliers m, float* y) {
  const int c = x.Column();
  const bool has_head = c % 2 == 0;
  const uint32_t head = has_head ? x.head : SharedAddress(zeros.heads);
  const uint32_t weight = has_head ? 1 : m.limb2;
  uint32_t sums[kStageSets][4];
  float factor[kStageGroups];
  tiles.Next();
#pragma unroll
  for (int s = 0; s < kStageSets; ++s) {
    uint4 start = {0, 0, 0, 0};
    if (kAll || kSetGroups * s + c / 2 < x.left) {
      start = LoadShared16(head + s * kSetGroups * kHeadBytes);
    }
    uint4 of_half[2] = {start, start};
#pragma unroll
    for (int j = 0; j < kSetGroups; ++j) {
      const int k = kSetGroups * s + j;
      const bool there = kAll || k < x.left;
      const GroupPart part = tiles.template Group<Scales::kOfOneRow>(k);
      const bool has = there && x.OwnGroup() == j && x.Limb() < 3;
      const uint2 limbs =
          LoadShared8((has ? x.limbs : SharedAddress(zeros.limbs)) +
                      s * kSetGroups * kActivationBytes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        of_half[half] = Multiply(DecodedRows(part.codes, half, m), limbs.x,
                                 limbs.y, of_half[half]);
      }
      const uint32_t fields = __shfl_sync(~0u, start.w, 2 * j, 4);
      factor[k] = FloatOf(there ? ClampFields(part.scales, fields) << 23 : 0u);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 v = of_half[half];
      sums[s][2 * half] = v.y * m.limb1 + v.x * weight;
      sums[s][2 * half + 1] = v.w * m.limb1 + v.z * weight;
    }
  }
  uint32_t by_group[kStageGroups];
  tiles.TurnQuad(sums, by_group);
#pragma unroll
  for (int k = 0; k < kStageGroups; ++k) {
    const auto sum = static_cast<float>(static_cast<int32_t>(by_group[k]));
    *y = fmaf(sum, factor[k], *y);
  }
}

// Adds `x.left` groups of the strip to *y, row 4g+c of the token in lane
// (g, c), in ascending order. x.left: as in MultiplyStrip.
template <typename Tiles>
__device__ __forceinline__ void MultiplyStripOnce(Tiles& tiles,
                                                  SingleActivations x,
                                                  SharedActivations zeros,
                                                  Multipliers m, float* y) {
#pragma unroll 1
  for (; x.left >= kStageGroups; x.Step()) {
    AddStageOnce<true>(tiles, x, zeros, m, y);
  }
  if (x.left > 0) AddStageOnce<false>(tiles, x, zeros, m, y);
}

}  // namespace
}  // namespace deltafin::cuda
