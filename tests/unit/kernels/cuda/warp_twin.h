// tests/unit/kernels/cuda/warp_twin.h
//
// What a warp of the card's kernel computes, on the processor: the functions of
// kernels/cuda/group_codes.h for each of 32 lanes around the matrix instruction
// as the instruction set defines it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/group_codes.h"

namespace deltafin {

// Prepared activations of up to four tokens.
struct TwinTokens {
  int groups = 0;
  std::vector<std::vector<uint8_t>> limbs;               // [token] all groups
  std::vector<std::vector<cuda::ActivationHead>> heads;  // [token][group]

  // REQUIRES: x finite, its size a multiple of 32 and the same for all.
  void Add(const std::vector<float>& x);
};

// y[row * 4 + token] of 32 rows: strip `strip` of a row block of `rows` rows in
// tile order at `block`.
std::vector<float> MultiplyStripTwin(const uint8_t* block, int rows, int strip,
                                     const TwinTokens& tokens);

}  // namespace deltafin
