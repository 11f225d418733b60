// AddPattern: patterns as byte grammars.

#include <algorithm>
#include <string>

#include "coordinator/frontend/python_json.h"
#include "coordinator/frontend/string_pattern.h"
#include "coordinator/frontend/utf8.h"

namespace deltafin {
namespace {

using Kind = StringPattern::Kind;

class PatternWriter {
 public:
  PatternWriter(StringForm form, ByteGrammar& grammar)
      : form_(form), grammar_(grammar) {}

  void Add(const StringPattern& pattern, GrammarNode from, GrammarNode to) {
    if (grammar_.is_too_large()) return;
    switch (pattern.kind) {
      case Kind::kCharacter:
        for (const CharacterRange& range : pattern.characters) {
          Characters(range.first, range.last, from, to);
        }
        return;
      case Kind::kChoice:
        for (const StringPattern& part : pattern.parts) Add(part, from, to);
        return;
      case Kind::kSequence:
        for (const StringPattern& part : pattern.parts) {
          const GrammarNode next = grammar_.AddNode();
          Add(part, from, next);
          from = next;
        }
        return grammar_.Empty(from, to);
      case Kind::kRepeat:
        return Repeat(pattern, from, to);
    }
  }

 private:
  void Repeat(const StringPattern& pattern, GrammarNode from, GrammarNode to) {
    const auto& [least, most] = pattern.count;
    const int64_t counted = most.value_or(least);
    for (int64_t i = 0; i < counted && !grammar_.is_too_large(); ++i) {
      if (i >= least) grammar_.Empty(from, to);
      const GrammarNode next = grammar_.AddNode();
      Add(pattern.parts[0], from, next);
      from = next;
    }
    if (most) return grammar_.Empty(from, to);
    const GrammarNode loop = grammar_.AddNode();
    grammar_.Empty(from, loop);
    Add(pattern.parts[0], loop, loop);
    grammar_.Empty(loop, to);
  }

  // In a quoted string some characters are escaped, one by one.
  void Characters(char32_t first, char32_t last, GrammarNode from,
                  GrammarNode to) {
    constexpr char32_t kLastSpecial = '\\';
    if (form_ == StringForm::kRaw) return Utf8(first, last, from, to);
    for (; first <= last && first <= kLastSpecial; ++first) {
      std::string character;
      AppendUtf8(first, character);
      const std::string quoted = QuoteJson(character);
      grammar_.Text(from, quoted.substr(1, quoted.size() - 2), to);
    }
    if (first <= last) Utf8(first, last, from, to);
  }

  // Splits a range until all its characters differ in the last bytes alone, and
  // those take all their values.
  void Utf8(char32_t first, char32_t last, GrammarNode from, GrammarNode to) {
    constexpr std::pair<char32_t, char32_t> kLengths[] = {{0, 0x7F},
                                                          {0x80, 0x7FF},
                                                          {0x800, 0xD7FF},
                                                          {0xE000, 0xFFFF},
                                                          {0x10000, 0x10FFFF}};
    for (const auto& [shortest, longest] : kLengths) {
      const char32_t begin = std::max(first, shortest);
      const char32_t end = std::min(last, longest);
      if (begin <= end) SameLength(begin, end, from, to);
    }
  }

  void SameLength(char32_t first, char32_t last, GrammarNode from,
                  GrammarNode to) {
    for (const int bits : {6, 12, 18}) {
      const char32_t mask = (char32_t{1} << bits) - 1;
      if ((first & ~mask) == (last & ~mask)) break;
      if ((first & mask) != 0) {
        SameLength(first, first | mask, from, to);
        return SameLength((first | mask) + 1, last, from, to);
      }
      if ((last & mask) != mask) {
        SameLength(first, (last & ~mask) - 1, from, to);
        return SameLength(last & ~mask, last, from, to);
      }
    }
    std::string low;
    std::string high;
    AppendUtf8(first, low);
    AppendUtf8(last, high);
    for (size_t i = 0; i < low.size(); ++i) {
      const GrammarNode next = i + 1 == low.size() ? to : grammar_.AddNode();
      grammar_.Symbols(from, static_cast<uint8_t>(low[i]),
                       static_cast<uint8_t>(high[i]), next);
      from = next;
    }
  }

  const StringForm form_;
  ByteGrammar& grammar_;
};

}  // namespace

void AddPattern(const StringPattern& pattern, StringForm form, GrammarNode from,
                GrammarNode to, ByteGrammar& grammar) {
  PatternWriter writer(form, grammar);
  if (form == StringForm::kRaw) return writer.Add(pattern, from, to);
  const GrammarNode begin = grammar.AddNode();
  const GrammarNode end = grammar.AddNode();
  grammar.Symbol(from, '"', begin);
  writer.Add(pattern, begin, end);
  grammar.Symbol(end, '"', to);
}

}  // namespace deltafin
