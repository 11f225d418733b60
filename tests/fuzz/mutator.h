// tests/fuzz/mutator.h
//
// Mutations of seed inputs, a pure function of (number, seeds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deltafin {

using Bytes = std::vector<uint8_t>;

class Mutator {
 public:
  explicit Mutator(uint64_t number) : state_(number * kStep + 1) {}

  // A seed with one to eight changes: bits, bytes, ranges removed, repeated or
  // taken from another seed, digits replaced by extreme numbers.
  Bytes Mutate(const std::vector<Bytes>& seeds);

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  uint64_t Next();             // splitmix64
  size_t Below(size_t bound);  // [0, bound), 0 if bound is 0
  void Change(Bytes& bytes, const Bytes& other);
  void RemoveRange(Bytes& bytes);
  void RepeatRange(Bytes& bytes);
  void InsertFrom(Bytes& bytes, const Bytes& other);
  void ReplaceNumber(Bytes& bytes);

  uint64_t state_;
};

}  // namespace deltafin
