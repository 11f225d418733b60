// coordinator/frontend/unicode_classes.h
//
// The classes of characters that the pre-tokenizer tells apart (docs/model.md
// 8.1), from Unicode 16.0. Thread-safe.
#pragma once

#include <cstdint>

namespace deltafin {

// The values are those of unicode_class_runs.inc.
enum class CharClass : uint8_t {
  kOther = 0,     // punctuation, symbols, controls, unassigned
  kSpace = 1,     // White_Space but CR and LF
  kNewline = 2,   // CR and LF
  kNumber = 3,    // \p{N}
  kUpper = 4,     // \p{Lu} \p{Lt}
  kLower = 5,     // \p{Ll}
  kCaseless = 6,  // \p{Lm} \p{Lo}
  kMark = 7,      // \p{M}
  // Script=Han, which the other classes leave out:
  kHanLetter = 8,
  kHanNumber = 9,
  kHanOther = 10,
};

// REQUIRES: code_point <= 0x10FFFF.
CharClass ClassOf(char32_t code_point);

// What Python's str.isspace says: White_Space and U+001C to U+001F.
bool IsPythonSpace(char32_t code_point);

}  // namespace deltafin
