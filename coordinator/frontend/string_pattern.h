// coordinator/frontend/string_pattern.h
//
// Regular expressions of JSON schemas (ECMA-262, with characters as code
// points), as far as they are regular: no references back, no looking around,
// no word boundaries, `^` and `$` only at the ends of the whole or of one of
// its alternatives. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/json_grammar.h"

namespace deltafin {

struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;
};

struct StringPattern {
  enum class Kind : uint8_t { kCharacter, kSequence, kChoice, kRepeat };

  Kind kind = Kind::kSequence;
  std::vector<CharacterRange> characters;  // kCharacter: one of these
  std::vector<StringPattern> parts;        // kRepeat: one
  Repetition count;                        // kRepeat
};

// What whole strings look like in which the pattern is found. Errors:
// INVALID_ARGUMENT with the byte offset of what is malformed or not supported.
absl::StatusOr<StringPattern> ParseStringPattern(std::string_view pattern);

// The pattern of a `format`, narrower than the format where that is no regular
// language. nullopt: not one that is known.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

// Adds the strings to the grammar. Quoted ones are spelled plainly: with
// escapes only where JSON wants them.
void AddPattern(const StringPattern& pattern, StringForm form, GrammarNode from,
                GrammarNode to, ByteGrammar& grammar);

}  // namespace deltafin
