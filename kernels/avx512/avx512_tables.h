// kernels/avx512/avx512_tables.h
//
// Entry points of the "avx512" target: AVX-512 F, BW, DQ, VL, VBMI and VNNI.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

struct ExpertOperations;
struct KernelTarget;

// Equal but for software prefetch, which pays on Intel's cores alone.
extern const ExpertOperations kAvx512ExpertOperations;
extern const ExpertOperations kAvx512PrefetchExpertOperations;
extern const LinearKernel kAvx512LinearKernel;
extern const ElementwiseKernel kAvx512ElementwiseKernel;

const KernelTarget& Avx512Target();

}  // namespace deltafin
