// tests/unit/kernels/case_generator.h
//
// Random numbers and digests that are the same on every machine: integer
// arithmetic alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltafin {

class XorShift64 {
 public:
  explicit XorShift64(uint64_t seed = 88172645463325252u) : state_(seed) {}

  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // 0 .. bound - 1.
  int Below(int bound) { return static_cast<int>(Next() % bound); }
  bool Coin() { return (Next() & 1) != 0; }
  // 53 random bits.
  int64_t Mantissa() { return static_cast<int64_t>(Next() >> 11); }

 private:
  uint64_t state_;
};

// FNV-1a, 64 bits.
class Digest {
 public:
  void Add(const void* bytes, size_t size) {
    const auto* p = static_cast<const uint8_t*>(bytes);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ p[i]) * 1099511628211u;
  }
  void AddNumber(uint64_t v) {
    for (int i = 0; i < 8; ++i) {
      value_ = (value_ ^ (v >> 8 * i & 255)) * 1099511628211u;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 1469598103934665603u;
};

}  // namespace deltafin
