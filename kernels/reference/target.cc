#include "kernels/expert_walk.h"
#include "kernels/kernel_registry.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {

const KernelTarget& ReferenceTarget() {
  static const KernelTarget target = {
      "reference",
      "nothing beyond the compiler's baseline",
      [] { return true; },
      ExpertKernelOver<kReferenceExpertOperations>(),
      kReferenceLinearKernel,
      kReferenceElementwiseKernel,
  };
  return target;
}

}  // namespace deltafin
