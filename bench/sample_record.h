// bench/sample_record.h
//
// An expert of K3's size for benches: no weights of K3 are at hand.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/expert_tiles.h"

namespace deltafin::bench {

inline constexpr ExpertShape kRecordShape = {3584,
                                             3072};  // latent, intermediate

// The n-th value of a fixed random sequence (SplitMix64).
uint64_t Mix(uint64_t n);

// Fixed random bytes in tile order, kRecordShape.stride_bytes() of them; scales
// of 115..122, so that no result overflows.
std::vector<uint8_t> MakeSampleRecord();

}  // namespace deltafin::bench
