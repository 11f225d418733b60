// Prints small cases and the results of every target of this machine, for
// expert_exact_model.py.
#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/kernel_registry.h"
#include "tests/unit/kernels/case_generator.h"
#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_definition.h"
#include "tests/unit/kernels/expert_operations.h"
#include "tests/unit/kernels/expert_runner.h"

namespace deltafin {
namespace {

template <typename T>
void PrintHex(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  std::printf(" ");
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) {
    std::printf("%02x", bytes[i]);
  }
}

// A float of any sign and mantissa with a biased exponent in [low, low + span).
float AnyFloat(XorShift64& random, int low, int span) {
  const uint32_t exponent = low + random.Below(span);
  const auto mantissa = static_cast<uint32_t>(random.Next() & 0x7fffff);
  const auto sign = static_cast<uint32_t>(random.Next() & 1);
  return std::bit_cast<float>(sign << 31 | exponent << 23 | mantissa);
}

template <typename Visit>
void ForEachSupported(const Visit& visit) {
  for (const KernelTarget* target : CompiledKernels()) {
    if (target->supported()) visit(*target);
  }
}

void DumpProduct(XorShift64& random, int k) {
  static constexpr int kExponents[][2] = {
      {0, 255}, {0, 60}, {240, 15}, {120, 12}, {120, 12}};
  const int rows = 3;
  const int cols = 32 * (1 + k % 3);
  std::vector<uint8_t> packed(rows * cols / 2), scale(rows * cols / 32);
  for (uint8_t& b : packed) b = static_cast<uint8_t>(random.Next());
  for (uint8_t& b : scale) {
    b = static_cast<uint8_t>(k % 4 == 0   ? random.Below(255)
                             : k % 4 == 1 ? random.Below(4)
                                          : 110 + random.Below(20));
  }
  std::vector<float> x(cols);
  for (int i = 0; i < cols; ++i) {
    x[i] = AnyFloat(random, kExponents[k % 5][0], kExponents[k % 5][1]);
    if (k % 7 == 0 && i < 32) x[i] = 0;
  }
  std::printf("product %d %d", rows, cols);
  PrintHex(packed);
  PrintHex(scale);
  PrintHex(x);
  ForEachSupported([&](const KernelTarget& target) {
    std::vector<float> y;
    MultiplyTiles(*FindExpertOperations(target.name),
                  DefineTiles({packed.data(), scale.data(), rows, cols}), rows,
                  cols, x.data(), 1, &y);
    std::printf(" %s", target.name);
    PrintHex(y);
  });
  std::printf("\n");
}

void DumpExpert(XorShift64& random, ExpertShape shape) {
  ExpertCase c;
  c.shape = shape;
  c.num_tokens = 1;
  FillExpertCase(ExpertKind::kOrdinary, &random, &c);
  c.weights[0] = std::fabs(AnyFloat(random, 120, 6));
  std::vector<uint8_t> record(shape.payload_bytes());
  PackSlices(shape, c.released(), {0, shape.num_slices()}, record.data());
  std::printf("expert %d %d", shape.latent_size, shape.intermediate_size);
  PrintHex(c.weights);
  PrintHex(c.x);
  PrintHex(record);
  ForEachSupported([&](const KernelTarget& target) {
    std::printf(" %s", target.name);
    PrintHex(RunSlices(target, c, 0, 1, {0, shape.num_slices()}).sums);
  });
  std::printf("\n");
}

}  // namespace
}  // namespace deltafin

int main() {
  deltafin::SetContractFloatingPointMode();
  deltafin::XorShift64 random(12345);
  for (int k = 0; k < 60; ++k) deltafin::DumpProduct(random, k);
  for (const deltafin::ExpertShape shape :
       {deltafin::ExpertShape{32, 288}, {96, 32}, {32, 544}, {96, 64}}) {
    deltafin::DumpExpert(random, shape);
  }
}
