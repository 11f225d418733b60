// coordinator/frontend/pre_tokenizer.h
//
// Cuts text into the pieces that byte-pair encoding treats one by one
// (docs/model.md 8.1). A hand-written scanner with the result of the published
// alternation: linear in the text, no regular expression engine, no limits.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "coordinator/frontend/unicode_classes.h"

namespace deltafin {

// Text of at most this many code points is encoded at once; longer text is cut.
inline constexpr size_t kMaxSliceChars = 400'000;
// A run of only spaces or only non-spaces longer than this is cut.
inline constexpr size_t kMaxRunChars = 25'000;

// Some text by code points.
struct CharText {
  std::string_view bytes;
  std::vector<char32_t> chars;
  std::vector<CharClass> classes;  // of chars
  std::vector<uint32_t> offsets;   // of chars in bytes, and the end: one more

  size_t size() const { return chars.size(); }
  std::string_view Bytes(size_t begin, size_t end) const {
    return bytes.substr(offsets[begin], offsets[end] - offsets[begin]);
  }
};

// The first `max_chars` characters of `utf8`, or all of it. The result refers
// to `utf8`. REQUIRES: valid UTF-8.
CharText ReadChars(std::string_view utf8, size_t max_chars);

// Where a slice is cut so that no run of spaces or non-spaces exceeds
// kMaxRunChars: ends of the parts, ascending, the last one text.size(). Parts
// are encoded independently. REQUIRES: text is not empty.
std::vector<size_t> RunCuts(const CharText& text);

// End of the piece that begins at `begin` in text[.., end).
// REQUIRES: begin < end <= text.size().
size_t PieceEnd(const CharText& text, size_t begin, size_t end);

}  // namespace deltafin
