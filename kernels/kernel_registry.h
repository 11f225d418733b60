// kernels/kernel_registry.h
//
// The kernel sets compiled into this program and the choice among them. The
// choice is made once at start-up and passed by reference; nothing here is
// mutable.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/elementwise.h"
#include "kernels/expert_kernel.h"
#include "kernels/linear_kernel.h"

namespace deltafin {

// One instruction set: "reference", "avx2", "avx512", "neon", "neon-dot".
struct KernelTarget {
  const char* name;
  const char*
      requirements;     // for messages: "AVX-512 F, BW, DQ, VL, VBMI and VNNI"
  bool (*supported)();  // by the machine this runs on
  ExpertKernel expert;
  LinearKernel linear;
  ElementwiseKernel elementwise;
};

// All compiled targets, fastest first; the last is "reference" and always
// supported.
std::span<const KernelTarget* const> CompiledKernels();

// The fastest supported target.
const KernelTarget& BestKernel();

// The target of that name, or nullptr with a sentence in *why: unknown (lists
// the names), or not supported here (says what it needs).
const KernelTarget* FindKernel(std::string_view name, std::string* why);

// Puts the calling thread into the contract's floating-point mode: round to
// nearest, subnormals kept (section 1).
void SetContractFloatingPointMode();

}  // namespace deltafin
