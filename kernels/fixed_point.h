// kernels/fixed_point.h
//
// The fixed-point sum over experts and slices (docs/numerics.md section 8):
// sum += rhe(w * y * 2^40), i64, so that terms may be added in any order.
#pragma once

#include <cstdint>

namespace deltafin {

inline constexpr double kFixedScale = 0x1p40;
inline constexpr float kFixedInverse = 0x1p-40f;
// |w * y| must be below this. A term is then at most 2^55 - 2^7, and 256 of
// them stay below 2^63.
inline constexpr double kFixedLimit = 0x1p15;
inline constexpr int kMaxFixedTerms = 256;

// Terms of one element of the sum: chosen experts times slices of each. A model
// with more than kMaxFixedTerms is refused when it is loaded.
constexpr int64_t NumFixedTerms(int top_k, int num_slices) {
  return int64_t{top_k} * num_slices;
}

}  // namespace deltafin
