// The targets compiled for 64-bit ARM and its floating-point mode.
#include <cstdint>

#include "kernels/kernel_registry.h"
#include "kernels/neon/neon_tables.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {

std::span<const KernelTarget* const> CompiledKernels() {
  static const KernelTarget* const targets[] = {&NeonDotTarget(), &NeonTarget(),
                                                &ReferenceTarget()};
  return targets;
}

void SetContractFloatingPointMode() {
  // Round to nearest, no flush-to-zero, no default NaN.
  const uint64_t fpcr = 0;
  asm volatile("msr fpcr, %0" : : "r"(fpcr));
}

}  // namespace deltafin
