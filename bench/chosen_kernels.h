// bench/chosen_kernels.h
//
// Which kernels a bench times.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_registry.h"

namespace deltafin::bench {

// The one called `name`; without a name all that this machine supports. Ends
// the program (69) where there is none of that name.
std::vector<const KernelTarget*> ChosenKernels(const std::string& name);

// The same, but without a name not the reference, which is for tests, where
// there is another.
std::vector<const KernelTarget*> ChosenFastKernels(const std::string& name);

}  // namespace deltafin::bench
