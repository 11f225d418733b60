// kernels/cuda/one_token_shares.h
//
// How the blocks of RunOneToken share the work: each has a run of the units of
// gate and up and of the strips of down, of the first third of the jobs and of
// the others. Private to kernels/cuda/.
#pragma once

#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/mxfp4.h"

namespace deltafin::cuda {

// Units of gate and up of a job: 32 rows of each. Those beyond the slice's
// columns are empty.
inline constexpr int kUpUnits = kSliceColumns / kTileRows;

// The first part of the jobs comes early: a third of the warps work on its gate
// and up and are given twice the bandwidth of the others, so that not all wait
// for h at once.
inline constexpr int kEarlyPart = 3;

// One block's: [early, later].
struct BlockShare {
  int32_t first_up[2];
  int32_t end_up[2];
  int32_t first_down[2];
  int32_t num_down[2];
};

// down_strips: of a job. blocks * the numbers of units and strips of all jobs
// fit in 32 bits.
DELTAFIN_HOST_DEVICE BlockShare ShareOfBlock(int jobs, int down_strips,
                                             int block, int blocks) {
  BlockShare result;
  const int early = (jobs + kEarlyPart - 1) / kEarlyPart;
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
    result.first_down[half] = first(down_strips, block);
    result.num_down[half] =
        first(down_strips, block + 1) - result.first_down[half];
  }
  return result;
}

}  // namespace deltafin::cuda
