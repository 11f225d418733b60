// kernels/avx2/avx2_tables.h
//
// Entry points of the "avx2" target: AVX2 with FMA.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

struct ExpertOperations;
struct KernelTarget;

// Equal but for software prefetch, which pays on Intel's cores alone.
extern const ExpertOperations kAvx2ExpertOperations;
extern const ExpertOperations kAvx2PrefetchExpertOperations;
extern const LinearKernel kAvx2LinearKernel;
extern const ElementwiseKernel kAvx2ElementwiseKernel;

const KernelTarget& Avx2Target();

}  // namespace deltafin
