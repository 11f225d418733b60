// Built without the flags of the target: this runs on any x86-64.
#include "kernels/avx512/avx512_tables.h"
#include "kernels/expert_walk.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

// True only if the operating system saves the registers, too.
bool Supported() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

}  // namespace

const KernelTarget& Avx512Target() {
  static const KernelTarget target = {
      "avx512",
      "AVX-512 F, BW, DQ, VL, VBMI and VNNI",
      Supported,
      __builtin_cpu_is("intel")
          ? ExpertKernelOver<kAvx512PrefetchExpertOperations>()
          : ExpertKernelOver<kAvx512ExpertOperations>(),
      kAvx512LinearKernel,
      kAvx512ElementwiseKernel,
  };
  return target;
}

}  // namespace deltafin
