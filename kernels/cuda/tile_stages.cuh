// kernels/cuda/tile_stages.cuh
//
// The tiles of a strip on their way from the card's memory through shared
// memory to the lanes of a warp. Private to kernels/cuda/.
#pragma once

#include <cstdint>

#include "kernels/mxfp4.h"

namespace deltafin::cuda {
namespace {

// A stage is what a warp waits for at once: two tiles of a strip. One stage is
// read, the others are on their way. With 24 warps on a multiprocessor 104 KB
// are, three to four times what bandwidth times latency asks for.
constexpr int kStages = 3;
constexpr int kStageTiles = 2;
constexpr int kStageGroups = kStageTiles * kTileGroups;

// A stage in shared memory. Codes: groups of four octets of 128 bytes; octet q
// of a group has the 16 bytes of rows 4a..4a+3 at chunk a ^ 2q, so that eight
// lanes in a row read every bank once. Then the scales, 32 bytes a group.
constexpr int kGroupCodeBytes = kOctetsPerGroup * kOctetBytes;
constexpr int kStageScales = kStageGroups * kGroupCodeBytes;
constexpr int kStageBytes = kStageTiles * kTileBytes;
struct WarpStages {
  alignas(128) uint8_t bytes[kStages][kStageBytes];
};
static_assert(kStageBytes % 128 == 0);

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ uint4 LoadShared16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ __forceinline__ uint2 LoadShared8(uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(at)
               : "memory");
  return v;
}

__device__ __forceinline__ uint32_t LoadShared4(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t LoadShared1(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

// Starts a copy of 16 bytes to shared memory past the first-level cache.
__device__ __forceinline__ void CopyAsync16(uint32_t to, const uint8_t* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to),
               "l"(from)
               : "memory");
}

// The same in the lanes below `lanes`, without a branch.
__device__ __forceinline__ void CopyAsync16Below(int lanes, uint32_t to,
                                                 const uint8_t* from) {
  asm volatile(
      "{ .reg .pred p; setp.lt.s32 p, %2, %3;"
      "  @p cp.async.cg.shared.global.L2::128B [%0], [%1], 16; }" ::"r"(to),
      "l"(from), "r"(static_cast<int>(threadIdx.x) % 32), "r"(lanes)
      : "memory");
}

// One lane's part of a group: rows 4g..4g+3 of octet c, and scales.
struct GroupPart {
  uint4 codes;
  uint32_t scales;
};

enum class Scales {
  kOfFourRows,  // rows 4g..4g+3, a byte each
  kOfOneRow,    // the row with the lane's number
};

// Where a strip lies: 32 rows of a row block, or of row blocks of the same
// size that follow each other.
struct StripSource {
  const uint8_t* block;  // the first row block's first byte
  int rows;              // of each row block
  int strip;             // its number in a row block
  int groups;            // of all row blocks, a multiple of kStageGroups in
                         // each where there are several; 0: no strip
};

// The tiles of a strip, or of several one after the other.
class StripTiles {
 public:
  // Of strips that Follow will name.
  __device__ __forceinline__ explicit StripTiles(WarpStages& stages)
      : next_(nullptr),
        stride_(0),
        to_copy_(0),
        rest_(0),
        strip_(0),
        first_stage_(SharedAddress(&stages)),
        read_stage_(first_stage_ + (kStages - 1) * kStageBytes) {
    const int octet = Lane() / 8;
    to_ = octet * kOctetBytes + (Lane() % 8 ^ 2 * octet) * 16;
    __syncwarp();  // all lanes have read what the stages had before
  }

  // Starts copying.
  __device__ __forceinline__ StripTiles(const StripSource& from,
                                        WarpStages& stages)
      : StripTiles(stages) {
    Follow(from);
#pragma unroll 1
    for (int s = 0; s < kStages - 1; ++s) {
      CopyIfAny(first_stage_ + s * kStageBytes);
    }
  }

  // Whether copies of all of the strip were started.
  __device__ __forceinline__ bool AllCopied() const {
    return to_copy_ + rest_ == 0;
  }

  // Goes on with another strip, in the next stage. REQUIRES: AllCopied().
  __device__ __forceinline__ void Follow(const StripSource& from) {
    next_ = from.block + from.strip * kTileBytes + Lane() % kScaleLanes * 16;
    stride_ = from.rows * kTileGroups * kGroupRowBytes;
    to_copy_ = from.groups / kStageGroups;
    rest_ = from.groups % kStageGroups;
    strip_ = from.strip;
  }

  // Waits for the next stage; the one before takes another copy.
  __device__ __forceinline__ void Next() {
    WaitForStage();
    CopyIfAny(read_stage_);
    StepStage();
  }

  // This lane's part of a group of the stage.
  template <Scales kScales>
  __device__ __forceinline__ GroupPart Group(int i) const {
    const int g = Lane() / 4;
    const uint32_t scales = read_stage_ + kStageScales;
    return {LoadShared16(Place() + i * kGroupCodeBytes),
            kScales == Scales::kOfOneRow
                ? LoadShared1(scales + Lane() + i * kTileRows)
                : LoadShared4(scales + 4 * g + i * kTileRows)};
  }

  // Sums of a stage's groups 2s and 2s+1 lie in the lanes of a quad: lane c has
  // in[s][k], half of what row k of the quad has of group 2s + c/2, the lane
  // beside it the other half. Adds and turns them: lane k gets row k's out[i]
  // of group i. In the place of the stage's first codes. REQUIRES: the lane has
  // read its own.
  __device__ __forceinline__ void TurnQuad(const uint32_t in[2][4],
                                           uint32_t out[4]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(
                       Place() + s * kGroupCodeBytes),
                   "r"(in[s][0]), "r"(in[s][1]), "r"(in[s][2]), "r"(in[s][3])
                   : "memory");
    }
    __syncwarp();
    // Number k of the place of lane (g, c), which is chunk g ^ 2c of octet c.
    const uint32_t number = read_stage_ + Lane() * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int c = i % 2 * 2;
      const uint32_t group = number + i / 2 * kGroupCodeBytes;
      out[i] = LoadShared4((group ^ c * 32) + c * kOctetBytes) +
               LoadShared4((group ^ (c + 1) * 32) + (c + 1) * kOctetBytes);
    }
  }

 protected:
  // Until all lanes' copies of the next stage are there and they have read the
  // last one.
  __device__ __forceinline__ static void WaitForStage() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();
  }

  // Until all copies that this lane has started are there.
  __device__ __forceinline__ static void WaitForCopies() {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  }

  // The last stage that was read, and the number `s` of all.
  __device__ __forceinline__ uint32_t read_stage() const { return read_stage_; }
  __device__ __forceinline__ uint32_t Stage(int s) const {
    return first_stage_ + s * kStageBytes;
  }

  __device__ __forceinline__ void StepStage() {
    read_stage_ += kStageBytes;
    if (read_stage_ == first_stage_ + kStages * kStageBytes) {
      read_stage_ = first_stage_;
    }
  }

  // Starts the copy of what the strip has next to a stage.
  __device__ __forceinline__ void CopyIfAny(uint32_t stage) {
    if (to_copy_ > 0) {
      Copy(stage);
      return;
    }
    if (rest_ > 0) CopyRest(stage);
    Commit();
  }

 private:
  static constexpr int kScaleLanes = kTileScaleBytes / 16;  // of a tile

  __device__ __forceinline__ static int Lane() { return threadIdx.x % 32; }

  // This lane's codes of the stage's first group.
  __device__ __forceinline__ uint32_t Place() const {
    const int g = Lane() / 4;
    const int c = Lane() % 4;
    return read_stage_ + c * kOctetBytes + ((g ^ 2 * c) * 16);
  }

  __device__ __forceinline__ static void Commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // From a tile's place in next_ to this lane's 16 bytes of its codes, which
  // come after `scale_bytes`.
  __device__ __forceinline__ static uint32_t ToCodes(uint32_t scale_bytes) {
    return scale_bytes + Lane() / kScaleLanes * (kScaleLanes * 16);
  }

  // Starts the copy of the codes of a full tile to a tile's place in a stage.
  __device__ __forceinline__ void CopyCodes(uint32_t to, const uint8_t* from) {
    CopyAsync16(to + to_, from);
    CopyAsync16(to + to_ + kGroupCodeBytes, from + kGroupCodeBytes);
  }

  // Starts the copy of the next full stage. In the lanes that copy scales, to_
  // is 16 times the lane.
  __device__ __forceinline__ void Copy(uint32_t stage) {
    const uint32_t codes = ToCodes(kTileScaleBytes);
    CopyCodes(stage, next_ + codes);
    CopyCodes(stage + kTileGroups * kGroupCodeBytes, next_ + codes + stride_);
    CopyAsync16Below(kStageTiles * kScaleLanes, stage + kStageScales + to_,
                     next_ + (Lane() < kScaleLanes ? 0 : stride_));
    next_ += kStageTiles * stride_;
    to_copy_ -= 1;
    Commit();
  }

  // Starts the copy of the last groups, fewer than a stage has.
  __device__ __forceinline__ void CopyRest(uint32_t stage) {
    uint32_t scales = stage + kStageScales + to_;
    if (rest_ >= kTileGroups) {
      CopyCodes(stage, next_ + ToCodes(kTileScaleBytes));
      CopyAsync16Below(kScaleLanes, scales, next_);
      stage += kTileGroups * kGroupCodeBytes;
      scales += kTileScaleBytes;
      next_ += stride_;
    }
    if (rest_ % kTileGroups != 0) {
      // One group: tiles and scales have half their size.
      const uint8_t* half = next_ - strip_ * (kTileBytes / 2);
      CopyAsync16(stage + to_, half + ToCodes(kTileRows));
      CopyAsync16Below(kTileRows / 16, scales, half);
    }
    rest_ = 0;
  }

  const uint8_t* next_;  // tile to copy, this lane's 16 bytes of its scales
  uint32_t stride_;      // to the strip's next tile
  int to_copy_;          // full stages
  int rest_;             // groups after them
  int strip_;            // of the row block
  uint32_t to_;          // this lane's place in a group's codes
  uint32_t first_stage_;
  uint32_t read_stage_;  // the one that is read
};
static_assert(kStageTiles == 2);

}  // namespace
}  // namespace deltafin::cuda
