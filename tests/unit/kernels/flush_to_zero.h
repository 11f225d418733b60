// tests/unit/kernels/flush_to_zero.h
//
// Flush-to-zero (and denormals-are-zero) on this thread while it lives, as a
// library built with fast-math would leave it.
#pragma once

#include <cstdint>

#include "kernels/kernel_registry.h"

namespace deltafin {

class FlushToZero {
 public:
  FlushToZero() {
#if defined(__x86_64__)
    const uint32_t mxcsr = 0x1f80 | 0x8040;
    asm volatile("ldmxcsr %0" : : "m"(mxcsr));
#elif defined(__aarch64__)
    const uint64_t fpcr = uint64_t{1} << 24;
    asm volatile("msr fpcr, %0" : : "r"(fpcr));
#endif
  }
  ~FlushToZero() { SetContractFloatingPointMode(); }
};

}  // namespace deltafin
