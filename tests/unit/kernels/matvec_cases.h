// tests/unit/kernels/matvec_cases.h
//
// MXFP4 products with their results by definition: random and adversarial
// weights and activations (docs/numerics.md section 10).
#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/kernels/case_generator.h"

namespace deltafin {

struct MatvecCase {
  const char* kind;
  int rows;
  int cols;
  int num_tokens;
  std::vector<uint8_t> packed;  // [rows, cols / 2]
  std::vector<uint8_t> scale;   // [rows, cols / 32]
  std::vector<float> x;         // [T, cols]
  std::vector<uint8_t> tiles;   // the same weights in tile order
  std::vector<float> y;         // [T, rows] by definition
};

// Ten kinds of each small shape. `digest` takes every expected bit, quantised
// activations included.
std::vector<MatvecCase> MakeSmallMatvecCases(XorShift64* random,
                                             Digest* digest);
// [3072, 3584] and [3584, 3072] with 1 and 9 tokens. `random` and `digest` as
// the small cases left them.
std::vector<MatvecCase> MakeLargeMatvecCases(XorShift64* random,
                                             Digest* digest);

}  // namespace deltafin
