// One bf16 row to int8 (docs/numerics.md section 5).
#include <bit>
#include <cmath>

#include "kernels/linear_kernel.h"

namespace deltafin {
namespace {

constexpr uint16_t kBf16Magnitude = 0x7fff;
constexpr uint16_t kBf16Infinity = 0x7f80;
constexpr float kLargestCode = 127.0f;
constexpr float kSmallestNormal = 0x1p-126f;
// Adding it rounds |v| <= 2^22 to an integer, which is then the low bits
// (section 1).
constexpr float kRoundToInteger = 12582912.0f;
constexpr int32_t kRoundToIntegerBits = 0x4b400000;

float FromBf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// Bit patterns of magnitudes order like the magnitudes; NaN and inf are
// largest.
uint16_t LargestMagnitude(const uint16_t* row, int cols) {
  int16_t largest = 0;
  for (int c = 0; c < cols; ++c) {
    const auto magnitude = static_cast<int16_t>(row[c] & kBf16Magnitude);
    largest = magnitude > largest ? magnitude : largest;
  }
  return static_cast<uint16_t>(largest);
}

}  // namespace

KernelStatus QuantizeRowInt8(const uint16_t* row, int cols, int8_t* q,
                             float* scale) {
  const uint16_t largest = LargestMagnitude(row, cols);
  if (largest >= kBf16Infinity) return KernelStatus::kNotFinite;
  const float s = FromBf16(largest) / kLargestCode;
  *scale = s;
  if (largest == 0) {
    for (int c = 0; c < cols; ++c) q[c] = 0;
    return KernelStatus::kOk;
  }
  if (s < kSmallestNormal) return KernelStatus::kOverflow;
  for (int c = 0; c < cols; ++c) {
    const float shifted = FromBf16(row[c]) / s + kRoundToInteger;
    const int32_t code = std::bit_cast<int32_t>(shifted) - kRoundToIntegerBits;
    q[c] = static_cast<int8_t>(code < -127 ? -127 : code > 127 ? 127 : code);
  }
  return KernelStatus::kOk;
}

}  // namespace deltafin
