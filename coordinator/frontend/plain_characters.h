// coordinator/frontend/plain_characters.h
//
// Plain characters: those that a quoted JSON string holds as they are. A place
// in a grammar that takes one of them usually takes all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace deltafin {

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;

  bool Has(uint8_t byte) const { return byte >= first && byte <= last; }
};

// Characters of one length in UTF-8: one range for each of their bytes, of
// which all combinations are characters.
struct CharacterBytes {
  size_t length = 0;
  std::array<ByteRange, 4> bytes;

  std::span<const ByteRange> ranges() const {
    return std::span(bytes).first(length);
  }
};

// All of Unicode but controls below U+0080, '"' and '\\'. No byte begins two of
// them. Source: The Unicode Standard, table 3-7.
inline constexpr std::array<CharacterBytes, 11> kPlainCharacters = {{
    {1, {{{0x20, 0x21}}}},
    {1, {{{0x23, 0x5B}}}},
    {1, {{{0x5D, 0x7E}}}},
    {2, {{{0xC2, 0xDF}, {0x80, 0xBF}}}},
    {3, {{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}}}},
    {3, {{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}}}},
    {3, {{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}}}},
    {3, {{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}}}},
    {4, {{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}}},
    {4, {{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}}},
    {4, {{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}}},
}};

// How many plain characters `bytes` is; the last may lack its last bytes.
// nullopt: something else is in it, or nothing.
std::optional<size_t> CountPlainCharacters(std::string_view bytes);

}  // namespace deltafin
