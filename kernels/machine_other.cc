// Any other machine: the scalar definition alone.
#include <cfenv>

#include "kernels/kernel_registry.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {

std::span<const KernelTarget* const> CompiledKernels() {
  static const KernelTarget* const targets[] = {&ReferenceTarget()};
  return targets;
}

void SetContractFloatingPointMode() { std::fesetenv(FE_DFL_ENV); }

}  // namespace deltafin
