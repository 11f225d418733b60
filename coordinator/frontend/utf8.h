// coordinator/frontend/utf8.h
//
// UTF-8 one character at a time, with the errors that Python's decoder sees.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deltafin {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

enum class Utf8State : uint8_t { kValid, kInvalid, kIncomplete };

// The character at the front of some bytes. kInvalid: `length` bytes are one
// error, which errors='replace' turns into one U+FFFD (the maximal subpart of
// Unicode 3.9). kIncomplete: all the bytes are the beginning of a character.
struct Utf8Char {
  char32_t code_point = 0;  // of a valid character
  uint8_t length = 0;       // in bytes, at least 1
  Utf8State state = Utf8State::kInvalid;
};

// REQUIRES: `bytes` is not empty.
Utf8Char DecodeUtf8Char(std::string_view bytes);

// Offset of the first byte that is not part of a whole valid character.
std::optional<size_t> FirstInvalidUtf8(std::string_view bytes);

// REQUIRES: a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

}  // namespace deltafin
