// kernels/neon/neon_tables.h
//
// Entry points of the targets "neon" (any ARMv8-A) and "neon-dot" (with the
// 8-bit dot product). Both share the elementwise functions.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

struct ExpertOperations;
struct KernelTarget;

extern const ExpertOperations kNeonExpertOperations;
extern const ExpertOperations kNeonDotExpertOperations;
extern const LinearKernel kNeonLinearKernel;
extern const LinearKernel kNeonDotLinearKernel;
extern const ElementwiseKernel kNeonElementwiseKernel;

const KernelTarget& NeonTarget();
const KernelTarget& NeonDotTarget();

}  // namespace deltafin
