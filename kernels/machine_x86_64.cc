// The targets compiled for x86-64 and its floating-point mode.
#include <cstdint>

#include "kernels/avx2/avx2_tables.h"
#include "kernels/avx512/avx512_tables.h"
#include "kernels/kernel_registry.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {

std::span<const KernelTarget* const> CompiledKernels() {
  static const KernelTarget* const targets[] = {&Avx512Target(), &Avx2Target(),
                                                &ReferenceTarget()};
  return targets;
}

void SetContractFloatingPointMode() {
  // All exceptions masked, round to nearest, no flush-to-zero, no
  // denormals-are-zero.
  const uint32_t mxcsr = 0x1f80;
  asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

}  // namespace deltafin
