// expert_node/storage/slice_check.h
//
// The check that every slice passes between a drive or the network and a
// kernel. Pure function.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/digest.h"
#include "kernels/expert_weights.h"

namespace deltafin {

// Whether slice `slice`, in tile order, has that digest and no scale byte 255.
// Touches its memory once. Errors: DATA_LOSS, saying which of the two.
absl::Status CheckSlice(const ExpertShape& shape, int slice,
                        const uint8_t* bytes, const Xxh128& digest);

}  // namespace deltafin
