// kernels/reference/reference_tables.h
//
// Entry points of the "reference" target: the scalar definition.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

struct ExpertOperations;
struct KernelTarget;

extern const ExpertOperations kReferenceExpertOperations;
extern const LinearKernel kReferenceLinearKernel;
extern const ElementwiseKernel kReferenceElementwiseKernel;

const KernelTarget& ReferenceTarget();

}  // namespace deltafin
