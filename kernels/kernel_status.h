// kernels/kernel_status.h
//
// What a kernel can report (docs/numerics.md section 9). The caller names
// layer, operator, expert and slice.
#pragma once

#include <cstdint>

namespace deltafin {

enum class KernelStatus : uint8_t {
  kOk = 0,
  kNotFinite = 1,  // inf or NaN among the activations, or a sum of squares that
                   // is not finite
  kOverflow = 2,   // a result that is inf or NaN, or a weighted expert output
                   // not below 2^15
};

// The worse of two, so that a loop can fold statuses: any error wins over kOk.
constexpr KernelStatus Worse(KernelStatus a, KernelStatus b) {
  return a == KernelStatus::kOk ? b : a;
}

}  // namespace deltafin
