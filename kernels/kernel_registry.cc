#include "kernels/kernel_registry.h"

namespace deltafin {

const KernelTarget& BestKernel() {
  const auto targets = CompiledKernels();
  for (const KernelTarget* target : targets) {
    if (target->supported()) return *target;
  }
  return *targets.back();  // reference: supported everywhere
}

const KernelTarget* FindKernel(std::string_view name, std::string* why) {
  std::string known;
  for (const KernelTarget* target : CompiledKernels()) {
    if (name == target->name) {
      if (target->supported()) return target;
      *why = "kernel '" + std::string(name) + "' needs " +
             target->requirements + ", which this machine does not have";
      return nullptr;
    }
    known += (known.empty() ? "" : ", ") + std::string(target->name);
  }
  *why = "no kernel is named '" + std::string(name) +
         "'; this program has: " + known;
  return nullptr;
}

}  // namespace deltafin
