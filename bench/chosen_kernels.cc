#include "bench/chosen_kernels.h"

#include <cstdio>
#include <cstdlib>

namespace deltafin::bench {

std::vector<const KernelTarget*> ChosenKernels(const std::string& name) {
  std::vector<const KernelTarget*> chosen;
  if (!name.empty()) {
    std::string why;
    chosen.push_back(FindKernel(name, &why));
    if (chosen[0] == nullptr) {
      std::fprintf(stderr, "%s\n", why.c_str());
      std::exit(69);
    }
    return chosen;
  }
  for (const KernelTarget* target : CompiledKernels()) {
    if (target->supported()) chosen.push_back(target);
  }
  return chosen;
}

std::vector<const KernelTarget*> ChosenFastKernels(const std::string& name) {
  std::vector<const KernelTarget*> chosen = ChosenKernels(name);
  if (chosen.size() > 1) chosen.pop_back();  // the reference is last
  return chosen;
}

}  // namespace deltafin::bench
