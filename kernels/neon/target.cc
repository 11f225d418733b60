// Built without the flags of the dot-product target: this runs on any 64-bit
// ARM machine.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "kernels/expert_walk.h"
#include "kernels/kernel_registry.h"
#include "kernels/neon/neon_tables.h"

namespace deltafin {

const KernelTarget& NeonTarget() {
  static const KernelTarget target = {
      "neon",
      "64-bit ARM",
      [] { return true; },
      ExpertKernelOver<kNeonExpertOperations>(),
      kNeonLinearKernel,
      kNeonElementwiseKernel,
  };
  return target;
}

const KernelTarget& NeonDotTarget() {
  static const KernelTarget target = {
      "neon-dot",
      "the 8-bit dot product of ARMv8.2 (asimddp)",
      [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; },
      ExpertKernelOver<kNeonDotExpertOperations>(),
      kNeonDotLinearKernel,
      kNeonElementwiseKernel,
  };
  return target;
}

}  // namespace deltafin
