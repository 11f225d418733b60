// ParseJson: a recursive-descent parser with the rules of CPython's scanner
// (Modules/_json.c): NaN and Infinity are numbers, integers have any size,
// control characters inside strings are refused. ParseStrictJson: the same
// parser, which then takes what RFC 8259 calls JSON and no key twice.

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/python_json.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Kind = JsonValue::Kind;

// A strict document holds no more values than this: each takes some hundred
// bytes, however short it is written.
constexpr size_t kMaxStrictValues = size_t{1} << 21;

// int() refuses longer literals (sys.int_info.default_max_str_digits).
constexpr size_t kMaxIntegerDigits = 4300;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// repr(float) from the shortest digits that read back as `value`.
std::string FloatRepr(double value) {
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view written(buffer, end - buffer);
  const int exponent =
      std::atoi(std::string(written.substr(written.find('e') + 1)).c_str());
  if (exponent >= 16 || exponent < -4) return std::string(written);
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                       std::chars_format::fixed)
                             .ptr;
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

enum class Rules : uint8_t { kPython, kStrict };

class Parser {
 public:
  Parser(std::string_view text, Rules rules)
      : text_(text), is_strict_(rules == Rules::kStrict) {}

  // Of the value that is being read; after an error, of the one in error.
  const std::string& path() const { return path_; }

  absl::StatusOr<JsonValue> Document() {
    JsonValue value;
    SkipSpace();
    RETURN_IF_ERROR(Value(value, 0));
    SkipSpace();
    if (at_ != text_.size()) return Malformed("text after the value");
    if (lone_surrogate_) {
      return absl::OutOfRangeError(
          fmt::format("JSON: lone surrogate before byte {}", *lone_surrogate_));
    }
    return value;
  }

 private:
  absl::Status Malformed(std::string_view what) const {
    return absl::InvalidArgumentError(
        fmt::format("JSON: {} at byte {}", what, at_));
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Take(std::string_view literal) {
    if (!text_.substr(at_).starts_with(literal)) return false;
    at_ += literal.size();
    return true;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                  text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  absl::Status Value(JsonValue& value, int depth) {
    if (depth > kMaxJsonDepth) {
      return absl::OutOfRangeError(
          fmt::format("JSON: nested deeper than {}", kMaxJsonDepth));
    }
    if (is_strict_ && ++num_values_ > kMaxStrictValues) {
      return Malformed("too many values");
    }
    switch (Peek()) {
      case '{':
        return Object(value, depth);
      case '[':
        return Array(value, depth);
      case '"':
        value.kind = Kind::kString;
        return String(value.text);
      default:
        return Word(value);
    }
  }

  absl::Status Word(JsonValue& value) {
    for (const auto& [literal, kind] :
         {std::pair("null", Kind::kNull), std::pair("true", Kind::kBoolean),
          std::pair("false", Kind::kBoolean), std::pair("NaN", Kind::kNumber),
          std::pair("Infinity", Kind::kNumber),
          std::pair("-Infinity", Kind::kNumber)}) {
      if (is_strict_ && kind == Kind::kNumber) continue;
      if (!Take(literal)) continue;
      value.kind = kind;
      value.text = literal;
      return absl::OkStatus();
    }
    return Number(value);
  }

  size_t SkipDigits(size_t at) const {
    while (at < text_.size() && IsDigit(text_[at])) ++at;
    return at;
  }

  // Ends of the integer part and of the whole literal at at_, the latter equal
  // to the former for an integer; nullopt where no number begins.
  std::optional<std::pair<size_t, size_t>> NumberEnds() const {
    const size_t first = at_ + (Peek() == '-' ? 1 : 0);
    if (first >= text_.size() || !IsDigit(text_[first])) return std::nullopt;
    const size_t integer_end =
        text_[first] == '0' ? first + 1 : SkipDigits(first);
    size_t end = integer_end;
    if (end < text_.size() && text_[end] == '.' &&
        SkipDigits(end + 1) > end + 1) {
      end = SkipDigits(end + 1);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t digits = end + 1;
      if (digits < text_.size() &&
          (text_[digits] == '+' || text_[digits] == '-')) {
        ++digits;
      }
      if (SkipDigits(digits) > digits) end = SkipDigits(digits);
    }
    return std::pair(integer_end, end);
  }

  absl::Status Number(JsonValue& value) {
    const auto ends = NumberEnds();
    if (!ends) return Malformed("no value");
    const std::string_view literal = text_.substr(at_, ends->second - at_);
    value.kind = Kind::kNumber;
    if (ends->first == ends->second) {
      if (literal.size() - (literal[0] == '-') > kMaxIntegerDigits) {
        return Malformed("integer too long");
      }
      value.text = literal == "-0" ? "0" : literal;
    } else {
      // Overflow gives infinity, as in Python.
      const double number = std::strtod(std::string(literal).c_str(), nullptr);
      if (is_strict_ && std::isinf(number)) return Malformed("huge number");
      value.text = FloatRepr(number);
    }
    at_ = ends->second;
    return absl::OkStatus();
  }

  absl::Status Array(JsonValue& value, int depth) {
    value.kind = Kind::kArray;
    ++at_;
    SkipSpace();
    if (Take("]")) return absl::OkStatus();
    while (true) {
      const size_t path_size = path_.size();
      if (is_strict_) path_ += fmt::format("[{}]", value.items.size());
      value.items.emplace_back();
      RETURN_IF_ERROR(Value(value.items.back(), depth + 1));
      path_.resize(path_size);
      SkipSpace();
      if (Take("]")) return absl::OkStatus();
      if (!Take(",")) return Malformed("expected ',' or ']'");
      SkipSpace();
    }
  }

  absl::Status Object(JsonValue& value, int depth) {
    value.kind = Kind::kObject;
    absl::flat_hash_map<std::string, size_t> index;
    ++at_;
    SkipSpace();
    if (Take("}")) return absl::OkStatus();
    while (true) {
      std::string key;
      JsonValue member;
      if (Peek() != '"') return Malformed("expected a key");
      RETURN_IF_ERROR(String(key));
      SkipSpace();
      if (!Take(":")) return Malformed("expected ':'");
      SkipSpace();
      const size_t path_size = path_.size();
      if (is_strict_) path_ += (path_size > 0 ? "." : "") + key;
      const auto [slot, is_new] = index.emplace(key, value.members.size());
      if (is_strict_ && !is_new) return Malformed("the key comes twice");
      RETURN_IF_ERROR(Value(member, depth + 1));
      path_.resize(path_size);
      if (is_new) {
        value.members.push_back({std::move(key), std::move(member)});
      } else {
        value.members[slot->second].value = std::move(member);
      }
      SkipSpace();
      if (Take("}")) return absl::OkStatus();
      if (!Take(",")) return Malformed("expected ',' or '}'");
      SkipSpace();
    }
  }

  absl::Status String(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (is_strict_ && FirstInvalidUtf8(out)) return Malformed("no UTF-8");
        ++at_;
        return absl::OkStatus();
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Malformed("control character in a string");
      }
      if (c == '\\') {
        RETURN_IF_ERROR(Escape(out));
      } else {
        out += c;
        ++at_;
      }
    }
    return Malformed("string without end");
  }

  absl::Status Escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kChars = "\"\\/\b\f\n\r\t";
    ++at_;
    if (Peek() == 'u') return UnicodeEscape(out);
    const size_t name =
        at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (name == std::string_view::npos) return Malformed("bad escape");
    out += kChars[name];
    ++at_;
    return absl::OkStatus();
  }

  // Four hexadecimal digits after the `u` at at_.
  std::optional<char32_t> HexUnit() {
    if (text_.size() - at_ < 5) return std::nullopt;
    uint32_t unit = 0;
    const char* first = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(first, first + 4, unit, 16);
    if (error != std::errc() || end != first + 4) return std::nullopt;
    at_ += 5;
    return unit;
  }

  absl::Status UnicodeEscape(std::string& out) {
    const auto unit = HexUnit();
    if (!unit) return Malformed("bad \\u escape");
    char32_t code_point = *unit;
    if (code_point >= 0xD800 && code_point < 0xE000) {
      const size_t after = at_;
      std::optional<char32_t> low;
      if (code_point < 0xDC00 && Take("\\") && Peek() == 'u') low = HexUnit();
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        code_point = 0x10000 + ((code_point & 0x3FF) << 10) + (*low & 0x3FF);
      } else {
        at_ = after;
        lone_surrogate_ = after;
        code_point = 0xFFFD;
      }
    }
    AppendUtf8(code_point, out);
    return absl::OkStatus();
  }

  const std::string_view text_;
  const bool is_strict_;
  std::string path_;  // kept by the strict rules alone, like num_values_
  size_t num_values_ = 0;
  size_t at_ = 0;
  // Where one ended. The document may still be malformed, which comes first.
  std::optional<size_t> lone_surrogate_;
};

}  // namespace

absl::StatusOr<JsonValue> ParseJson(std::string_view text) {
  return Parser(text, Rules::kPython).Document();
}

absl::StatusOr<JsonValue> ParseStrictJson(std::string_view text,
                                          std::string& where) {
  Parser parser(text, Rules::kStrict);
  absl::StatusOr<JsonValue> value = parser.Document();
  if (value.ok()) return value;
  where = parser.path();
  return absl::InvalidArgumentError(value.status().message());
}

}  // namespace deltafin
