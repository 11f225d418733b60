// tests/unit/kernels/expert_operations.h
//
// The pieces of a target below its public table, for tests of single products.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/expert_walk.h"

namespace deltafin {

// nullptr: not compiled.
const ExpertOperations* FindExpertOperations(std::string_view target);

// y[t * rows + r] = product of a matrix in tile order, any number of rows, with
// T tokens x [T, cols], by the row blocks of a target. False: inf or NaN in x.
bool MultiplyTiles(const ExpertOperations& ops,
                   const std::vector<uint8_t>& tiles, int rows, int cols,
                   const float* x, int num_tokens, std::vector<float>* y);

}  // namespace deltafin
