// coordinator/engine/philox.h
//
// The counter-based random generator of sampling: a pure function of key and
// counter, so a draw depends on nothing but the seed and where it is made.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011),
// Philox4x32 with 10 rounds.
#pragma once

#include <array>
#include <cstdint>

namespace deltafin {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

}  // namespace deltafin
