// tests/unit/kernels/linear_values.h
//
// Floats for kernel tests, made with integer arithmetic alone so that they are
// the same on every machine, and their comparison bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/kernels/case_generator.h"

namespace deltafin {

// Exponent fields lowest .. highest of random floats of both signs.
struct FloatRange {
  int lowest = 118;
  int highest = 131;
};

inline constexpr FloatRange kOrdinary = {118, 131};
inline constexpr FloatRange kAnyFinite = {0, 254};
inline constexpr FloatRange kTiny = {0, 8};
inline constexpr FloatRange kHuge = {240, 254};

inline float RandomFloat(XorShift64* random, FloatRange range) {
  const uint32_t field = static_cast<uint32_t>(
      range.lowest + random->Below(range.highest - range.lowest + 1));
  const auto bits = static_cast<uint32_t>(random->Next());
  return std::bit_cast<float>((bits & 0x807fffffu) | field << 23);
}

inline std::vector<float> RandomFloats(XorShift64* random, size_t n,
                                       FloatRange range = kOrdinary) {
  std::vector<float> values(n);
  for (float& v : values) v = RandomFloat(random, range);
  return values;
}

// Zeros of both signs, subnormals, the neighbours of powers of two and of the
// limits that the definitions test, inf and NaN.
inline std::vector<float> SpecialFloats() {
  std::vector<float> values = {0.0f,
                               0x1p-149f,
                               0x1.8p-140f,
                               0x1p-126f,
                               0x1p-94f,
                               0.5f,
                               0.625f,
                               1.0f,
                               1.5f,
                               86.5f,
                               87.0f,
                               88.0f,
                               88.5f,
                               104.0f,
                               1e4f,
                               0x1p62f,
                               0x1p64f,
                               0x1p127f,
                               0x1.fffffep127f,
                               INFINITY,
                               NAN};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    const float v = values[i];
    values.push_back(-v);
    if (!std::isfinite(v) || v == 0) continue;
    const auto bits = std::bit_cast<uint32_t>(v);
    for (const uint32_t neighbour : {bits - 1, bits + 1}) {
      values.push_back(std::bit_cast<float>(neighbour));
      values.push_back(-std::bit_cast<float>(neighbour));
    }
  }
  return values;
}

// The same bits, or both NaN (whose payload and sign mean nothing).
inline bool SameBits(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  return std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want);
}

inline ::testing::AssertionResult SameFloats(const std::vector<float>& got,
                                             const std::vector<float>& want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << "sizes differ";
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (SameBits(got[i], want[i])) continue;
    return ::testing::AssertionFailure()
           << "element " << i << " of " << got.size() << ": " << std::hexfloat
           << got[i] << ", want " << want[i];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace deltafin
