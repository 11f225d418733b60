// Built without the flags of the target: this runs on any x86-64.
#include "kernels/avx2/avx2_tables.h"
#include "kernels/expert_walk.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

// True only if the operating system saves the registers, too.
bool Supported() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

}  // namespace

const KernelTarget& Avx2Target() {
  static const KernelTarget target = {
      "avx2",
      "AVX2 and FMA",
      Supported,
      __builtin_cpu_is("intel")
          ? ExpertKernelOver<kAvx2PrefetchExpertOperations>()
          : ExpertKernelOver<kAvx2ExpertOperations>(),
      kAvx2LinearKernel,
      kAvx2ElementwiseKernel,
  };
  return target;
}

}  // namespace deltafin
