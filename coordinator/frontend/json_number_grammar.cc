// JsonGrammar: numbers.

#include <algorithm>
#include <string>

#include "coordinator/frontend/json_grammar.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr int64_t kMostMagnitude = 999'999'999'999'999'999;  // kMaxJsonDigits

int64_t PowerOfTen(int exponent) {
  int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

GrammarSymbol After(char digit) {
  return static_cast<GrammarSymbol>(digit + 1);
}
GrammarSymbol Before(char digit) {
  return static_cast<GrammarSymbol>(digit - 1);
}

}  // namespace

// Of both signs what is not negative, and the absolute values of what is not
// positive. `least` over `most`: there are none.
struct JsonGrammar::Signs {
  explicit Signs(const NumberBounds& bounds) {
    const int64_t least =
        std::max(bounds.least.value_or(-kMostMagnitude), -kMostMagnitude - 1);
    const int64_t most =
        std::min(bounds.most.value_or(kMostMagnitude), kMostMagnitude + 1);
    const bool excludes_least =
        bounds.is_least_excluded || least < -kMostMagnitude;
    const bool excludes_most = bounds.is_most_excluded || most > kMostMagnitude;
    positive = {std::max<int64_t>(least, 0), most, excludes_least && least >= 0,
                excludes_most};
    negative = {std::max<int64_t>(-most, 0), -least, excludes_most && most <= 0,
                excludes_least};
  }

  Magnitudes positive;
  Magnitudes negative;
};

void JsonGrammar::Digits(GrammarNode from, const Repetition& count,
                         GrammarNode to) {
  for (int64_t i = 0; i < *count.most; ++i) {
    if (i >= count.least) grammar_.Empty(from, to);
    const GrammarNode next = grammar_.AddNode();
    grammar_.Symbols(from, '0', '9', next);
    from = next;
  }
  grammar_.Empty(from, to);
}

void JsonGrammar::Number(GrammarNode from, const NumberBounds& bounds,
                         GrammarNode to) {
  const Signs signs(bounds);
  const GrammarNode minus = grammar_.AddNode();
  grammar_.Symbol(from, '-', minus);
  if (bounds.least || bounds.most) {
    BoundedNumber(from, signs.positive, to);
    BoundedNumber(minus, signs.negative, to);
    return;
  }
  const GrammarNode digits = grammar_.AddNode();
  const GrammarNode whole = grammar_.AddNode();
  const GrammarNode fraction = grammar_.AddNode();
  grammar_.Empty(from, digits);
  grammar_.Empty(minus, digits);
  DigitRange(digits, 0, kMostMagnitude, whole);
  grammar_.Empty(whole, to);
  FractionDigits(whole, Fraction::kAny, fraction);
  grammar_.Empty(fraction, to);
  Exponent(whole, to);
  Exponent(fraction, to);
}

void JsonGrammar::Integer(GrammarNode from, const NumberBounds& bounds,
                          GrammarNode to) {
  const auto range = [this, to](GrammarNode at, const Magnitudes& magnitudes,
                                int64_t smallest) {
    const int64_t least =
        magnitudes.least + (magnitudes.is_least_excluded ? 1 : 0);
    const int64_t most =
        magnitudes.most - (magnitudes.is_most_excluded ? 1 : 0);
    DigitRange(at, std::max(least, smallest), most, to);
  };
  const Signs signs(bounds);
  const GrammarNode minus = grammar_.AddNode();
  range(from, signs.positive, 0);
  grammar_.Symbol(from, '-', minus);
  range(minus, signs.negative, 1);
}

void JsonGrammar::Exponent(GrammarNode from, GrammarNode to) {
  const GrammarNode sign = grammar_.AddNode();
  const GrammarNode digits = grammar_.AddNode();
  grammar_.OneOf(from, "eE", sign);
  grammar_.OneOf(sign, "+-", digits);
  grammar_.Empty(sign, digits);
  Digits(digits, {1, 2}, to);
}

void JsonGrammar::FractionDigits(GrammarNode from, Fraction fraction,
                                 GrammarNode to) {
  GrammarNode zeros = grammar_.AddNode();
  grammar_.Symbol(from, '.', zeros);
  if (fraction == Fraction::kAny) {
    return Digits(zeros, {1, kMaxJsonDigits}, to);
  }
  GrammarNode others = grammar_.AddNode();  // one at least is not zero
  for (int i = 0; i < kMaxJsonDigits; ++i) {
    const GrammarNode next_zeros = grammar_.AddNode();
    const GrammarNode next_others = grammar_.AddNode();
    grammar_.Symbol(zeros, '0', next_zeros);
    grammar_.Symbols(zeros, '1', '9', next_others);
    grammar_.Symbols(others, '0', '9', next_others);
    grammar_.Empty(fraction == Fraction::kZero ? next_zeros : next_others, to);
    zeros = next_zeros;
    others = next_others;
  }
}

void JsonGrammar::BoundedNumber(GrammarNode from, const Magnitudes& magnitudes,
                                GrammarNode to) {
  const auto& [least, most, excludes_least, excludes_most] = magnitudes;
  if (least > most) return;
  if (!excludes_most && !(excludes_least && least == most)) {
    const GrammarNode at_most = grammar_.AddNode();
    DigitRange(from, most, most, at_most);
    grammar_.Empty(at_most, to);
    FractionDigits(at_most, Fraction::kZero, to);
  }
  if (least == most) return;
  if (excludes_least) {
    const GrammarNode at_least = grammar_.AddNode();
    DigitRange(from, least, least, at_least);
    FractionDigits(at_least, Fraction::kNotZero, to);
  }
  const GrammarNode between = grammar_.AddNode();
  DigitRange(from, least + (excludes_least ? 1 : 0), most - 1, between);
  grammar_.Empty(between, to);
  FractionDigits(between, Fraction::kAny, to);
}

// The whole numbers of a range that is not negative.
void JsonGrammar::DigitRange(GrammarNode from, int64_t least, int64_t most,
                             GrammarNode to) {
  if (least > most || least > kMostMagnitude) return;
  for (int length = 1; length <= kMaxJsonDigits; ++length) {
    const int64_t shortest = length == 1 ? 0 : PowerOfTen(length - 1);
    const int64_t longest = PowerOfTen(length) - 1;
    if (longest < least || shortest > most) continue;
    if (most >= kMostMagnitude && least <= shortest && length > 1) {
      const GrammarNode rest = grammar_.AddNode();
      grammar_.Symbols(from, '1', '9', rest);
      return Digits(rest, {length - 1, kMaxJsonDigits - 1}, to);
    }
    SameLengthRange(from, fmt::to_string(std::max(shortest, least)),
                    fmt::to_string(std::min(longest, most)), to);
  }
}

// Digits as long as both bounds. Once a digit is inside of its bounds, the rest
// is free; until then it follows one of them, or both.
void JsonGrammar::SameLengthRange(GrammarNode from, std::string_view least,
                                  std::string_view most, GrammarNode to) {
  const size_t length = least.size();
  std::vector<GrammarNode> free = {to};  // by the digits left
  for (size_t left = 1; left < length; ++left) {
    free.push_back(grammar_.AddNode());
    grammar_.Symbols(free[left], '0', '9', free[left - 1]);
  }
  GrammarNode low = from;
  GrammarNode high = from;
  for (size_t i = 0; i < length; ++i) {
    const GrammarNode inside = free[length - i - 1];
    const GrammarNode next_low = grammar_.AddNode();
    const GrammarNode next_high = grammar_.AddNode();
    if (low == high && least[i] == most[i]) {
      grammar_.Symbol(low, least[i], next_low);
      low = high = next_low;
      continue;
    }
    const bool is_fork = low == high;
    const char low_end = is_fork ? most[i] : '9' + 1;
    const char high_begin = is_fork ? least[i] : '0' - 1;
    grammar_.Symbol(low, least[i], next_low);
    grammar_.Symbol(high, most[i], next_high);
    if (least[i] + 1 < low_end) {
      grammar_.Symbols(low, After(least[i]), Before(low_end), inside);
    }
    if (!is_fork && most[i] - 1 > high_begin) {
      grammar_.Symbols(high, After(high_begin), Before(most[i]), inside);
    }
    low = next_low;
    high = next_high;
  }
  grammar_.Empty(low, to);
  if (high != low) grammar_.Empty(high, to);
}

}  // namespace deltafin
