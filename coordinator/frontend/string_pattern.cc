#include "coordinator/frontend/string_pattern.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr int kMaxGroups = 32;  // inside each other
constexpr char32_t kLastCharacter = 0x10FFFF;

using Ranges = std::vector<CharacterRange>;
using Kind = StringPattern::Kind;

Ranges Complement(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CharacterRange& a, const CharacterRange& b) {
              return a.first < b.first;
            });
  Ranges rest;
  char32_t next = 0;
  for (const CharacterRange& range : ranges) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLastCharacter) rest.push_back({next, kLastCharacter});
  return rest;
}

// The set that \d, \w, ... name.
std::optional<Ranges> NamedSet(char name) {
  const Ranges digits = {{'0', '9'}};
  const Ranges word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  const Ranges blanks = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                         {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                         {0xFEFF, 0xFEFF}};
  switch (name) {
    case 'd':
      return digits;
    case 'D':
      return Complement(digits);
    case 'w':
      return word;
    case 'W':
      return Complement(word);
    case 's':
      return blanks;
    case 'S':
      return Complement(blanks);
  }
  return std::nullopt;
}

StringPattern OneOf(Ranges characters) {
  return {Kind::kCharacter, std::move(characters), {}, {}};
}

StringPattern Anything() {
  StringPattern any = {Kind::kRepeat, {}, {}, {}};
  any.parts.push_back(OneOf({{0, kLastCharacter}}));
  return any;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  absl::StatusOr<StringPattern> Whole() {
    StringPattern choice = {Kind::kChoice, {}, {}, {}};
    do {
      StringPattern branch;
      if (!Take('^')) branch.parts.push_back(Anything());
      ASSIGN_OR_RETURN(StringPattern body, Sequence(0));
      branch.parts.push_back(std::move(body));
      if (!Take('$')) branch.parts.push_back(Anything());
      choice.parts.push_back(std::move(branch));
    } while (Take('|'));
    if (at_ == text_.size()) return choice;
    return Error("not supported here");
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(
        fmt::format("byte {} of the pattern: {}", at_, what));
  }
  bool AtEnd() const { return at_ == text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool Take(char c) { return Take(std::string_view(&c, 1)); }

  absl::StatusOr<StringPattern> Choice(int depth) {
    StringPattern choice = {Kind::kChoice, {}, {}, {}};
    do {
      ASSIGN_OR_RETURN(StringPattern branch, Sequence(depth));
      choice.parts.push_back(std::move(branch));
    } while (Take('|'));
    return choice;
  }

  absl::StatusOr<StringPattern> Sequence(int depth) {
    StringPattern sequence;
    while (!AtEnd() && Peek() != '|' && Peek() != ')' && Peek() != '$') {
      ASSIGN_OR_RETURN(StringPattern part, Atom(depth));
      ASSIGN_OR_RETURN(part, Repeated(std::move(part)));
      sequence.parts.push_back(std::move(part));
    }
    return sequence;
  }

  absl::StatusOr<StringPattern> Repeated(StringPattern part) {
    StringPattern repeat = {Kind::kRepeat, {}, {}, {}};
    if (Take('?')) {
      repeat.count.most = 1;
    } else if (Take('+')) {
      repeat.count.least = 1;
    } else if (Take('{')) {
      ASSIGN_OR_RETURN(repeat.count, Count());
    } else if (!Take('*')) {
      return part;
    }
    Take('?');  // as few as possible: the same strings
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  absl::StatusOr<Repetition> Count() {
    Repetition count;
    ASSIGN_OR_RETURN(count.least, Number());
    count.most = count.least;
    if (Take(',')) {
      count.most.reset();
      if (Peek() != '}') {
        ASSIGN_OR_RETURN(count.most, Number());
      }
    }
    if (!Take('}')) return Error("expected '}'");
    if (count.most && *count.most < count.least)
      return Error("{m,n} with n < m");
    return count;
  }

  absl::StatusOr<int64_t> Number() {
    constexpr int64_t kMost = 1000;
    int64_t number = -1;
    const char* const begin = text_.data() + at_;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0 || number > kMost) {
      return Error("expected a number of 0 to 1000");
    }
    at_ += end - begin;
    return number;
  }

  absl::StatusOr<StringPattern> Atom(int depth) {
    const bool is_group =
        Take("(?:") || (!text_.substr(at_).starts_with("(?") && Take('('));
    if (is_group) {
      if (depth == kMaxGroups) return Error("too many groups in each other");
      ASSIGN_OR_RETURN(StringPattern group, Choice(depth + 1));
      if (!Take(')')) return Error("expected ')'");
      return group;
    }
    if (Take('.')) {
      return OneOf(Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    }
    if (Take('[')) return Class();
    if (Take('\\')) {
      ASSIGN_OR_RETURN(Ranges set, Escape());
      return OneOf(std::move(set));
    }
    constexpr std::string_view kReserved = "^$*+?(){}[]|";
    if (kReserved.find(Peek()) != std::string_view::npos) {
      return Error("not supported here");
    }
    const char32_t character = Character();
    return OneOf({{character, character}});
  }

  // REQUIRES: not at the end. The pattern is UTF-8.
  char32_t Character() {
    const Utf8Char c = DecodeUtf8Char(text_.substr(at_));
    at_ += c.length;
    return c.code_point;
  }

  absl::StatusOr<StringPattern> Class() {
    const bool is_negated = Take('^');
    Ranges ranges;
    while (!Take(']')) {
      ASSIGN_OR_RETURN(Ranges set, ClassAtom());
      const bool is_range =
          Peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        ASSIGN_OR_RETURN(const Ranges end, ClassAtom());
        const bool is_one = set.size() == 1 && set[0].first == set[0].last &&
                            end.size() == 1 && end[0].first == end[0].last;
        if (!is_one || end[0].last < set[0].first) return Error("no range");
        set = {{set[0].first, end[0].last}};
      }
      ranges.insert(ranges.end(), set.begin(), set.end());
    }
    return OneOf(is_negated ? Complement(std::move(ranges)) : ranges);
  }

  absl::StatusOr<Ranges> ClassAtom() {
    if (AtEnd()) return Error("expected ']'");
    if (Take('\\')) return Escape();
    const char32_t character = Character();
    return Ranges{{character, character}};
  }

  // What follows a backslash.
  absl::StatusOr<Ranges> Escape() {
    constexpr std::string_view kNames = "tnrfv0";
    const char name = Peek();
    if (const auto set = NamedSet(name)) {
      ++at_;
      return *set;
    }
    if (Take('x')) return Hex(2);
    if (Take('u')) return Hex(4);
    char32_t character = static_cast<uint8_t>(name);
    const size_t control = kNames.find(name);
    const bool is_punctuation = name > ' ' && name < 0x7F &&
                                !(name >= '0' && name <= '9') &&
                                !((name | 32) >= 'a' && (name | 32) <= 'z');
    if (AtEnd() || (control == std::string_view::npos && !is_punctuation)) {
      return Error("this escape is not supported");
    }
    if (control != std::string_view::npos) {
      character = static_cast<uint8_t>("\t\n\r\f\v\0"[control]);
    }
    ++at_;
    return Ranges{{character, character}};
  }

  absl::StatusOr<Ranges> Hex(int digits) {
    uint32_t character = 0;
    const std::string_view text = text_.substr(at_, digits);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), character, 16);
    if (error != std::errc() || end != text.data() + digits) {
      return Error("expected hexadecimal digits");
    }
    at_ += digits;
    return Ranges{{character, character}};
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<StringPattern> ParseStringPattern(std::string_view pattern) {
  return PatternParser(pattern).Whole();
}

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"date",
       R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|)"
       R"([12]\d|30)|02-(0[1-9]|1\d|2[0-8]))$)"},
      {"time", R"(^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?)"
               R"((Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
      {"date-time",
       R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|)"
       R"([12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
       R"(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?)"
       R"((Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
      {"uuid", "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$"},
      {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3})"
               R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
      {"email", R"(^[A-Za-z0-9_+\-]{1,32}(\.[A-Za-z0-9_+\-]{1,32})?@)"
                R"(([A-Za-z0-9]{1,32}\.){1,4}[A-Za-z]{2,12}$)"},
  };
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return std::nullopt;
}

}  // namespace deltafin
