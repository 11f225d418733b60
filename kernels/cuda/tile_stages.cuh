// kernels/cuda/tile_stages.cuh
//
// The tiles of a strip on their way from the card's memory through shared
// memory to the lanes of a warp. Private to kernels/cuda/.
#pragma once

#include <cstdint>

#include "kernels/mxfp4.h"

namespace deltafin::cuda {
namespace {

// Tiles of a warp: one that is read, the others on their way. With 24 warps on
// a multiprocessor 78 KB are, three times what bandwidth times latency asks
// for.
constexpr int kStages = 4;

// Tiles in shared memory. Codes: groups of four octets of 128 bytes; octet q of
// a group has the 16 bytes of rows 4a..4a+3 at chunk a ^ 2q, so that eight
// lanes in a row read every bank once. Then the scales as in the tile.
struct WarpStages {
  alignas(16) uint8_t bytes[kStages][kTileBytes];
  uint8_t spare[32 * 16];  // for lanes that have nothing to copy
};
constexpr int kGroupCodeBytes = kOctetsPerGroup * kOctetBytes;
constexpr int kStageScales = kTileGroups * kGroupCodeBytes;

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

// One lane's part of a group: rows 4g..4g+3 of octet c, and scales.
struct GroupPart {
  uint4 codes;
  uint32_t scales;
};

enum class Scales {
  kOfFourRows,  // rows 4g..4g+3, a byte each
  kOfOneRow,    // the row with the lane's number
};

// The tiles of a strip: 32 rows of a row block, or of row blocks of the same
// size that follow each other.
class StripTiles {
 public:
  // block: the first row block's first byte; rows: how many each has; groups:
  // of all row blocks, odd only where there is one. Starts copying.
  __device__ __forceinline__ StripTiles(const uint8_t* block, int rows,
                                        int strip, int groups,
                                        WarpStages& stages)
      : tile_(block + strip * kTileBytes),
        stride_(rows * kTileGroups * kGroupRowBytes),
        half_back_(groups % kTileGroups == 0 ? -1 : strip * (kTileBytes / 2)),
        to_copy_(groups / kTileGroups),
        first_stage_(SharedAddress(&stages)),
        read_stage_(first_stage_ + (kStages - 1) * kTileBytes) {
    const int octet = Lane() / 8;
    to_ = octet * kOctetBytes + (Lane() % 8 ^ 2 * octet) * 16;
    for (int s = 0; s < kStages - 1; ++s) {
      CopyIfAny(first_stage_ + s * kTileBytes);
    }
  }

  // Full tiles whose copies have not begun.
  __device__ __forceinline__ int to_copy() const { return to_copy_; }

  // Waits for the next tile; the stage of the one before takes another copy.
  // kSure: REQUIRES to_copy() > 0.
  template <bool kSure>
  __device__ __forceinline__ void Next() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();  // all lanes' copies are there, and the last tile was read
    if (kSure) {
      Copy(read_stage_);
    } else {
      CopyIfAny(read_stage_);
    }
    read_stage_ += kTileBytes;
    if (read_stage_ == first_stage_ + kStages * kTileBytes) {
      read_stage_ = first_stage_;
    }
  }

  // This lane's part of a group of the tile.
  template <Scales kScales>
  __device__ __forceinline__ GroupPart Group(int i) const {
    const int g = Lane() / 4;
    const int c = Lane() % 4;
    const uint32_t codes = read_stage_ + c * kOctetBytes + ((g ^ 2 * c) * 16);
    const uint32_t scales = read_stage_ + kStageScales;
    return {LoadShared16(codes + i * kGroupCodeBytes),
            kScales == Scales::kOfOneRow
                ? LoadShared1(scales + Lane() + i * kTileRows)
                : LoadShared4(scales + 4 * g + i * kTileRows)};
  }

 private:
  __device__ __forceinline__ static int Lane() { return threadIdx.x % 32; }

  __device__ __forceinline__ static void Commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // Where this lane's 16 of `bytes` bytes of scales go. Lanes beyond them copy
  // some to nowhere, which costs less than a branch.
  __device__ __forceinline__ uint32_t ToScales(uint32_t stage,
                                               int bytes) const {
    return (Lane() < bytes / 16 ? stage + kStageScales
                                : first_stage_ + kStages * kTileBytes) +
           Lane() * 16;
  }

  // Starts the copy of the next tile, a full one.
  __device__ __forceinline__ void Copy(uint32_t stage) {
    const uint32_t codes = kTileScaleBytes + Lane() * 16;
    CopyAsync16(stage + to_, tile_ + codes);
    CopyAsync16(stage + to_ + kGroupCodeBytes, tile_ + codes + kGroupCodeBytes);
    CopyAsync16(ToScales(stage, kTileScaleBytes),
                tile_ + Lane() % (kTileScaleBytes / 16) * 16);
    tile_ += stride_;
    to_copy_ -= 1;
    Commit();
  }

  __device__ __forceinline__ void CopyIfAny(uint32_t stage) {
    if (to_copy_ > 0) {
      Copy(stage);
      return;
    }
    if (half_back_ >= 0) {
      // One group: tiles and scales have half their size.
      const uint8_t* tile = tile_ - half_back_;
      CopyAsync16(stage + to_, tile + kTileRows + Lane() * 16);
      CopyAsync16(ToScales(stage, kTileRows),
                  tile + Lane() % (kTileRows / 16) * 16);
      half_back_ = -1;
    }
    Commit();
  }

  const uint8_t* tile_;  // the next one to copy
  uint32_t stride_;
  int half_back_;  // half the size of the tiles before the strip's in their
                   // chunk, where a half tile is still to come; else -1
  int to_copy_;    // full tiles
  uint32_t to_;    // this lane's place in a stage
  uint32_t first_stage_;
  uint32_t read_stage_;  // of the tile that is read
};

}  // namespace
}  // namespace deltafin::cuda
