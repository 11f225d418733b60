// coordinator/frontend/json_grammar.h
//
// The parts of JSON texts as rules of a grammar. Between any two tokens of a
// text stands nothing, a space, or a line's end and an indentation, so that no
// model gets lost in blanks; before and after it nothing. Strings
// are UTF-8 and hold no lone surrogates, numbers no more digits than a reader
// keeps: every text is one that ParseStrictJson takes. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

// Spaces and tabs.
inline constexpr int kMaxJsonIndentation = 20;
// Of the part before the point, and of that behind it.
inline constexpr int kMaxJsonDigits = 18;

// Whole bounds of a number.
struct NumberBounds {
  std::optional<int64_t> least;
  std::optional<int64_t> most;
  bool is_least_excluded = false;
  bool is_most_excluded = false;
};

// How often something comes: no `most` is no bound.
struct Repetition {
  int64_t least = 0;
  std::optional<int64_t> most;
};

// How a string is written: with quotes and escapes, or as it is.
enum class StringForm : uint8_t { kQuoted, kRaw };

class JsonGrammar {
 public:
  // `grammar` must outlive this.
  explicit JsonGrammar(ByteGrammar& grammar);

  ByteGrammar& grammar() { return grammar_; }

  // Rules.
  GrammarNode any_value() const { return any_value_; }
  GrammarNode any_object() const { return any_object_; }
  GrammarNode any_array() const { return any_array_; }
  GrammarNode any_string() const { return any_string_; }
  GrammarNode any_number() const { return any_number_; }
  GrammarNode any_integer() const { return any_integer_; }
  // Any UTF-8.
  GrammarNode any_raw_string() const { return any_raw_string_; }

  // Ways from one node to another.
  void Gap(GrammarNode from, GrammarNode to);
  void Number(GrammarNode from, const NumberBounds& bounds, GrammarNode to);
  void Integer(GrammarNode from, const NumberBounds& bounds, GrammarNode to);
  // Of as many characters.
  void String(GrammarNode from, const Repetition& length, StringForm form,
              GrammarNode to);
  // This value alone, spelled as DumpJson does but for blanks.
  void Value(GrammarNode from, const JsonValue& value, GrammarNode to);
  // A ':' between gaps.
  void Colon(GrammarNode from, GrammarNode to);
  // A string that is none of `names`.
  void OtherKey(GrammarNode from, const std::vector<std::string_view>& names,
                GrammarNode to);
  // An array of what `item` says.
  void List(GrammarNode from, GrammarNode item, GrammarNode to);

 private:
  // Where a number's digits go on behind the point.
  enum class Fraction : uint8_t { kAny, kZero, kNotZero };
  // Absolute values of one sign.
  struct Magnitudes {
    int64_t least = 0;
    int64_t most = 0;
    bool is_least_excluded = false;
    bool is_most_excluded = false;
  };

  struct Signs;
  enum class Escapes : uint8_t { kAll, kShort };

  void DefineStrings();
  void DefineValue();
  void QuotedCharacter(GrammarNode from, Escapes escapes, GrammarNode to);
  void RawCharacter(GrammarNode from, GrammarNode to);
  void MultiByteCharacter(GrammarNode from, GrammarNode to);
  // Returns where they begin.
  GrammarNode HexDigits(int count, GrammarNode to);
  void Digits(GrammarNode from, const Repetition& count, GrammarNode to);
  void DigitRange(GrammarNode from, int64_t least, int64_t most,
                  GrammarNode to);
  void SameLengthRange(GrammarNode from, std::string_view least,
                       std::string_view most, GrammarNode to);
  void FractionDigits(GrammarNode from, Fraction fraction, GrammarNode to);
  void BoundedNumber(GrammarNode from, const Magnitudes& magnitudes,
                     GrammarNode to);
  void Exponent(GrammarNode from, GrammarNode to);
  void Members(GrammarNode from, const JsonValue& object, GrammarNode to);
  // A ',' after a gap; returns what follows.
  GrammarNode Comma(GrammarNode from);

  ByteGrammar& grammar_;
  GrammarNode gap_;
  GrammarNode character_;  // of a quoted string
  GrammarNode raw_character_;
  GrammarNode any_string_;
  GrammarNode any_raw_string_;
  GrammarNode any_number_;
  GrammarNode any_integer_;
  GrammarNode any_value_;
  GrammarNode any_object_;
  GrammarNode any_array_;
};

}  // namespace deltafin
