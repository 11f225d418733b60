#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>

namespace deltafin {
namespace {

constexpr size_t kMaxBytes = 1 << 16;
constexpr uint8_t kBytes[] = {0,   1,   0x7f, 0x80, 0xff, '"', '\\', '{', '}',
                              '[', ']', ',',  ':',  '-',  '.', '0',  '9', '\n'};
constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1.5",
                                    "1e400",
                                    "2147483648",
                                    "4294967296",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "null",
                                    "\"\"",
                                    "[]",
                                    "{}"};

}  // namespace

uint64_t Mutator::Next() {
  state_ += kStep;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

size_t Mutator::Below(size_t bound) { return bound == 0 ? 0 : Next() % bound; }

Bytes Mutator::Mutate(const std::vector<Bytes>& seeds) {
  Bytes bytes = seeds[Below(seeds.size())];
  const size_t changes = 1 + Below(8);
  for (size_t i = 0; i < changes; ++i) {
    Change(bytes, seeds[Below(seeds.size())]);
  }
  if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
  return bytes;
}

void Mutator::Change(Bytes& bytes, const Bytes& other) {
  if (bytes.empty()) return InsertFrom(bytes, other);
  switch (Below(8)) {
    case 0:
      bytes[Below(bytes.size())] ^= 1 << Below(8);
      break;
    case 1:
      bytes[Below(bytes.size())] = kBytes[Below(std::size(kBytes))];
      break;
    case 2:
      bytes.resize(Below(bytes.size()));
      break;
    case 3:
      RemoveRange(bytes);
      break;
    case 4:
      RepeatRange(bytes);
      break;
    case 5:
      InsertFrom(bytes, other);
      break;
    default:
      ReplaceNumber(bytes);
  }
}

void Mutator::RemoveRange(Bytes& bytes) {
  const size_t begin = Below(bytes.size());
  const size_t length = 1 + Below(std::min<size_t>(64, bytes.size() - begin));
  bytes.erase(bytes.begin() + begin,
              bytes.begin() + std::min(begin + length, bytes.size()));
}

void Mutator::RepeatRange(Bytes& bytes) {
  const size_t begin = Below(bytes.size());
  const size_t length = std::min<size_t>(1 + Below(128), bytes.size() - begin);
  const Bytes range(bytes.begin() + begin, bytes.begin() + begin + length);
  bytes.insert(bytes.begin() + Below(bytes.size()), range.begin(), range.end());
}

void Mutator::InsertFrom(Bytes& bytes, const Bytes& other) {
  const size_t begin = Below(other.size());
  const size_t length = std::min<size_t>(Below(128), other.size() - begin);
  bytes.insert(bytes.begin() + Below(bytes.size() + 1), other.begin() + begin,
               other.begin() + begin + length);
}

// Replaces the digits at or after a random place.
void Mutator::ReplaceNumber(Bytes& bytes) {
  const auto is_digit = [](uint8_t c) { return std::isdigit(c) != 0; };
  const auto from = bytes.begin() + Below(bytes.size());
  const auto begin = std::find_if(from, bytes.end(), is_digit);
  const auto end = std::find_if_not(begin, bytes.end(), is_digit);
  const char* number = kNumbers[Below(std::size(kNumbers))];
  const auto at = bytes.erase(begin, end);
  bytes.insert(at, number, number + std::strlen(number));
}

}  // namespace deltafin
