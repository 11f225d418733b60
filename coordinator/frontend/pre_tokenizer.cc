#include "coordinator/frontend/pre_tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "coordinator/frontend/utf8.h"

namespace deltafin {
namespace {

// A set of classes, one bit each.
using ClassSet = uint32_t;

constexpr ClassSet SetOf(std::initializer_list<CharClass> classes) {
  ClassSet set = 0;
  for (const CharClass c : classes) set |= 1u << static_cast<int>(c);
  return set;
}

using enum CharClass;
constexpr ClassSet kHan = SetOf({kHanLetter, kHanNumber, kHanOther});
constexpr ClassSet kNumbers = SetOf({kNumber, kHanNumber});
constexpr ClassSet kSpaces = SetOf({kSpace, kNewline});
constexpr ClassSet kNewlines = SetOf({kNewline});
// U and W of docs/model.md 8.1.
constexpr ClassSet kWordHead = SetOf({kUpper, kCaseless, kMark});
constexpr ClassSet kWordTail = SetOf({kLower, kCaseless, kMark});
// [^\r\n\p{L}\p{N}]: one optional character before a word.
constexpr ClassSet kLead = SetOf({kOther, kSpace, kMark, kHanOther});
// [^\s\p{L}\p{N}]
constexpr ClassSet kSymbols = SetOf({kOther, kMark, kHanOther});

// The alternation at one position of text[.., end).
class Matcher {
 public:
  Matcher(const CharText& text, size_t end) : text_(text), end_(end) {}

  size_t PieceEnd(size_t begin) const {
    if (In(kHan, begin)) return Skip(kHan, begin);  // A1
    if (const auto word_end = Word(begin)) return *word_end;
    if (In(kNumbers, begin)) {  // A4
      return Matcher(text_, std::min(begin + 3, end_)).Skip(kNumbers, begin);
    }
    if (const auto symbol_end = Symbols(begin)) return *symbol_end;
    return Spaces(begin);
  }

 private:
  bool In(ClassSet set, size_t at) const {
    return set >> static_cast<int>(text_.classes[at]) & 1;
  }

  size_t Skip(ClassSet set, size_t at) const {
    while (at < end_ && In(set, at)) ++at;
    return at;
  }

  // A2, then A3, each first with and then without the leading character.
  std::optional<size_t> Word(size_t begin) const {
    const bool has_lead = In(kLead, begin);
    std::optional<size_t> word_end;
    if (has_lead) word_end = HeadsThenTails(begin + 1);
    if (!word_end) word_end = HeadsThenTails(begin);
    if (!word_end && has_lead) word_end = HeadsOnly(begin + 1);
    if (!word_end) word_end = HeadsOnly(begin);
    if (!word_end) return std::nullopt;
    return Contraction(*word_end);
  }

  // U* W+: the heads give back as many as the tail needs.
  std::optional<size_t> HeadsThenTails(size_t at) const {
    size_t head_end = Skip(kWordHead, at);
    if (head_end < end_ && In(kWordTail, head_end)) {
      return Skip(kWordTail, head_end);
    }
    while (head_end > at && !In(kWordTail, head_end - 1)) --head_end;
    if (head_end == at) return std::nullopt;
    return head_end;
  }

  // U+ W*
  std::optional<size_t> HeadsOnly(size_t at) const {
    const size_t head_end = Skip(kWordHead, at);
    if (head_end == at) return std::nullopt;
    return Skip(kWordTail, head_end);
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d)?
  size_t Contraction(size_t at) const {
    if (at + 1 >= end_ || text_.chars[at] != U'\'') return at;
    const char32_t first = Folded(at + 1);
    if (first == U's' || first == U't' || first == U'm' || first == U'd') {
      return at + 2;
    }
    if (at + 2 >= end_) return at;
    const char32_t second = Folded(at + 2);
    const bool two_letters = (first == U'r' && second == U'e') ||
                             (first == U'v' && second == U'e') ||
                             (first == U'l' && second == U'l');
    return two_letters ? at + 3 : at;
  }

  // Case folding as far as contractions need it.
  char32_t Folded(size_t at) const {
    const char32_t c = text_.chars[at];
    if (c >= U'A' && c <= U'Z') return c + (U'a' - U'A');
    return c == U'\u017F' ? U's' : c;
  }

  // A5
  std::optional<size_t> Symbols(size_t begin) const {
    const size_t first = text_.chars[begin] == U' ' ? begin + 1 : begin;
    const size_t symbol_end = Skip(kSymbols, first);
    if (symbol_end == first) return std::nullopt;
    return Skip(kNewlines, symbol_end);
  }

  // A6 to A8
  size_t Spaces(size_t begin) const {
    const size_t space_end = Skip(kSpaces, begin);
    size_t newline_end = space_end;
    while (newline_end > begin && !In(kNewlines, newline_end - 1)) {
      --newline_end;
    }
    if (newline_end > begin) return newline_end;
    if (space_end == end_ || space_end - begin == 1) return space_end;
    return space_end - 1;
  }

  const CharText& text_;
  const size_t end_;
};

}  // namespace

CharText ReadChars(std::string_view utf8, size_t max_chars) {
  CharText text;
  size_t offset = 0;
  while (offset < utf8.size() && text.size() < max_chars) {
    const Utf8Char c = DecodeUtf8Char(utf8.substr(offset));
    text.chars.push_back(c.code_point);
    text.classes.push_back(ClassOf(c.code_point));
    text.offsets.push_back(static_cast<uint32_t>(offset));
    offset += c.length;
  }
  text.offsets.push_back(static_cast<uint32_t>(offset));
  text.bytes = utf8.substr(0, offset);
  return text;
}

std::vector<size_t> RunCuts(const CharText& text) {
  std::vector<size_t> ends;
  bool in_spaces = IsPythonSpace(text.chars[0]);
  size_t run = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsPythonSpace(text.chars[i]) != in_spaces) {
      in_spaces = !in_spaces;
      run = 1;
    } else if (++run > kMaxRunChars) {
      ends.push_back(i);
      run = 1;
    }
  }
  ends.push_back(text.size());
  return ends;
}

size_t PieceEnd(const CharText& text, size_t begin, size_t end) {
  return Matcher(text, end).PieceEnd(begin);
}

}  // namespace deltafin
