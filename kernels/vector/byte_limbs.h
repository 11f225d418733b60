// kernels/vector/byte_limbs.h
//
// Prepared int8 activations for the targets that multiply bytes: X = lo + 256
// mid + 65536 hi, each a signed byte, as dwords of four columns (the columns of
// a weight dword).
#pragma once

#include <cstring>

#include "kernels/vector/linear_prepare.h"

namespace deltafin {
namespace {

struct ByteLimbs {
  // Words of one token's chunk of 128 columns.
  static constexpr int kPower = 0;      // 2^e
  static constexpr int kStartLow = 1;   // -128 * sum(lo + 256 mid): undoes the
  static constexpr int kStartHigh = 2;  // -128 * sum(hi)     + 128 of weights
  static constexpr int kLo = 4;
  static constexpr int kMid = kLo + 32;
  static constexpr int kHi = kMid + 32;
  static constexpr int kTokenWords = kHi + 32;

  static void Write(const Int8Activations& x, int32_t* words) {
    int8_t lo[128], mid[128], hi[128];
    uint32_t low = 0, high = 0;
    for (int j = 0; j < 128; ++j) {
      const int32_t v = x.values[j];
      const auto l = static_cast<int8_t>(v);
      const int32_t rest = (v - l) >> 8;
      const auto m = static_cast<int8_t>(rest);
      const auto h = static_cast<int8_t>((rest - m) >> 8);
      lo[j] = l;
      mid[j] = m;
      hi[j] = h;
      low += static_cast<uint32_t>(256 * m + l);
      high += static_cast<uint32_t>(h);
    }
    words[kPower] = PowerBits(x.exponent);
    words[kStartLow] = static_cast<int32_t>(uint32_t{0} - 128 * low);
    words[kStartHigh] = static_cast<int32_t>(uint32_t{0} - 128 * high);
    words[3] = 0;
    std::memcpy(words + kLo, lo, sizeof(lo));
    std::memcpy(words + kMid, mid, sizeof(mid));
    std::memcpy(words + kHi, hi, sizeof(hi));
  }
};

}  // namespace
}  // namespace deltafin
