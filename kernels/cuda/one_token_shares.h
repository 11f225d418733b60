// kernels/cuda/one_token_shares.h
//
// How the blocks of RunOneToken share the work: several blocks have a token,
// and each of them a run of the units of gate and up and of the items of down
// of that token's jobs, of the first part of the jobs and of the others.
// Private to kernels/cuda/.
#pragma once

#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/mxfp4.h"

namespace deltafin::cuda {

// Units of gate and up of a job: 32 rows of each. Those beyond the slice's
// columns are empty.
inline constexpr int kUpUnits = kSliceColumns / kTileRows;

// Strips of 32 rows of a row block.
inline constexpr int kBlockStrips = kTileBlockRows / kTileRows;

// One in so many of a token's jobs comes early: as large a part of the warps
// works on their gate and up and is given twice the bandwidth of the others, so
// that not all wait for h at once. All jobs are early where they are few, and
// where the layer has several tokens, whose waits do not fall together so much.
inline constexpr int kEarlyPart = 4;
DELTAFIN_HOST_DEVICE int EarlyPart(int tokens, int jobs, int blocks) {
  return tokens == 1 && jobs * kUpUnits > 8 * blocks ? kEarlyPart : 1;
}

struct TokenBlock {
  int32_t token;
  int32_t block;   // its number among the token's
  int32_t blocks;  // of the token
};

// The tokens' blocks lie side by side, as many for each or one more. tokens <=
// blocks.
DELTAFIN_HOST_DEVICE TokenBlock TokenOfBlock(int tokens, int block,
                                             int blocks) {
  const int token = block * tokens / blocks;
  const int first = (token * blocks + tokens - 1) / tokens;
  const int end = ((token + 1) * blocks + tokens - 1) / tokens;
  return {token, block - first, end - first};
}

// What a warp takes of down at once: the same strip of so many row blocks that
// follow each other; with one row block it is a strip as they come.
struct DownItems {
  int32_t row_blocks;
  int32_t of_job;
};
inline constexpr int kMostRowBlocks = 7;

// About one for each warp of a token's blocks, but no larger than may be.
// strips: of a job. whole: row blocks can follow each other.
DELTAFIN_HOST_DEVICE DownItems ChooseDownItems(int jobs, int strips, bool whole,
                                               int warps) {
  int row_blocks = (jobs * strips + warps / 2) / warps;
  if (row_blocks > kMostRowBlocks) row_blocks = kMostRowBlocks;
  if (row_blocks <= 1 || !whole) return {1, strips};
  const int blocks = strips / kBlockStrips;
  return {row_blocks, (blocks + row_blocks - 1) / row_blocks * kBlockStrips};
}

// One block's: [early, later].
struct BlockShare {
  int32_t first_up[2];
  int32_t end_up[2];
  int32_t first_job[2];   // of down,
  int32_t first_item[2];  // its first item
  int32_t num_down[2];    // items from there, of one job after the other
};

// Of a token's jobs. down_items: of a job. blocks * the numbers of units and
// items of all jobs fit in 32 bits.
DELTAFIN_HOST_DEVICE BlockShare ShareOfBlock(int jobs, int early_part,
                                             int down_items, int block,
                                             int blocks) {
  BlockShare result;
  const int early = (jobs + early_part - 1) / early_part;
  for (int half = 0; half < 2; ++half) {
    const int before = half == 0 ? 0 : early;
    const auto first = [&](int units_of_job, int of_block) {
      const uint32_t units = (half == 0 ? early : jobs - early) * units_of_job;
      return before * units_of_job +
             static_cast<int32_t>(units * static_cast<uint32_t>(of_block) /
                                  static_cast<uint32_t>(blocks));
    };
    result.first_up[half] = first(kUpUnits, block);
    result.end_up[half] = first(kUpUnits, block + 1);
    const int down = first(down_items, block);
    result.first_job[half] = down / down_items;
    result.first_item[half] = down % down_items;
    result.num_down[half] = first(down_items, block + 1) - down;
  }
  return result;
}

}  // namespace deltafin::cuda
