// tests/unit/kernels/linear_definition.h
//
// The spine's matrix products on released rows, written from docs/numerics.md
// sections 4 and 5: no tiles, no prepared activations.
#pragma once

#include <vector>

#include "kernels/linear_kernel.h"
#include "kernels/linear_layout.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {

// A matrix as released (values exact in its format), and in tile order.
struct LinearCase {
  WeightFormat format = WeightFormat::kBf16;
  int rows = 0;
  int cols = 0;
  std::vector<float> weights;  // [rows, cols]; int8: the codes
  std::vector<float> row_scale;
  std::vector<uint32_t> tiles;

  LinearWeights view() const;
};

// Random weights of the exponent range; int8: all codes, ordinary scales.
LinearCase MakeLinearCase(WeightFormat format, int rows, int cols,
                          FloatRange range, XorShift64* random);

// Packs case->weights into case->tiles.
void PackLinearCase(LinearCase* linear_case);

// y [T, rows] of x [T, cols]. Activations of int8 must be finite.
std::vector<float> DefinedProduct(const LinearCase& linear_case,
                                  const std::vector<float>& x, int num_tokens);

// y by a kernel in one call over all rows; the status in *status.
std::vector<float> KernelProduct(const LinearKernel& kernel,
                                 const LinearCase& linear_case,
                                 const std::vector<float>& x, int num_tokens,
                                 KernelStatus* status);

// 64-byte aligned storage.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : storage_(size + 64) {}
  void* get() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<uint8_t> storage_;
};

}  // namespace deltafin
