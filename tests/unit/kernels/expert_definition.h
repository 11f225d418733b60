// tests/unit/kernels/expert_definition.h
//
// Sections 2, 3, 6 (SiTU) and 8 of docs/numerics.md as plain scalar code over
// released bytes, written from the page and sharing nothing with kernels/ but
// the shapes. What every kernel target is compared with.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/expert_tiles.h"
#include "kernels/expert_weights.h"

namespace deltafin {

// One token's groups of 32 columns: integers and exponents.
struct QuantizedRow {
  std::vector<int32_t> x;
  std::vector<int> exponent;
};

// False: inf or NaN inside.
bool DefineQuantized(const float* x, int cols, QuantizedRow* row);

// A released matrix: two columns a byte, low nibble first, and scales.
struct ReleasedMatrix {
  const uint8_t* packed;
  const uint8_t* scale;
  int rows;
  int cols;
};

// y[r] of columns [first_group * 32, (first_group + groups of x) * 32). False:
// some y is inf or NaN.
bool DefineProduct(const ReleasedMatrix& m, const QuantizedRow& x,
                   int first_group, float* y);

float DefineSitu(float gate, float up, SituParams params);

// Adds the slices of `run` for one token. False: an error of section 9.
bool DefineSlices(const ExpertShape& shape, SituParams situ,
                  const ReleasedExpert& released, SliceRun run,
                  const QuantizedRow& x, float weight, int64_t* sums);

// The matrix in tile order.
std::vector<uint8_t> DefineTiles(const ReleasedMatrix& m);

// The value of an e2m1 code under an e8m0 scale byte.
float DecodeMxfp4(int code, int scale);

}  // namespace deltafin
