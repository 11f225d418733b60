// coordinator/frontend/python_json.h
//
// JSON as Python's json module reads and writes it. The chat format is defined
// by that module's output (docs/model.md section 9), down to key order, number
// spelling and separators. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t {
    kNull,
    kBoolean,
    kNumber,
    kString,
    kObject,
    kArray
  };

  Kind kind = Kind::kNull;
  // kString: the characters, UTF-8. kNumber, kBoolean, kNull: the spelling that
  // json.dumps gives.
  std::string text;
  std::vector<JsonValue> items;  // kArray
  // kObject: keys in the order of their first appearance, the value of the
  // last one.
  std::vector<JsonMember> members;

  // The member's value or null. Never frees or copies.
  const JsonValue* Find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Objects and arrays inside each other.
inline constexpr int kMaxJsonDepth = 256;

// json.loads. Errors: INVALID_ARGUMENT with the byte offset where json.loads
// raises ValueError; OUT_OF_RANGE for what it accepts but we cannot represent:
// lone surrogates, nesting over kMaxJsonDepth.
absl::StatusOr<JsonValue> ParseJson(std::string_view text);

// The same values of a client's request, which must be unambiguous: also
// refuses a key that comes twice in an object, text that is not UTF-8, NaN and
// numbers beyond the doubles. Errors: INVALID_ARGUMENT; `where` is then the
// path of the member in error ("messages[0].content"), "" for the whole.
absl::StatusOr<JsonValue> ParseStrictJson(std::string_view text,
                                          std::string& where);

// json.dumps(value, ensure_ascii=False).
std::string DumpJson(const JsonValue& value);

// json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).
std::string DumpCompactSortedJson(const JsonValue& value);

// The string literal of json.dumps, quotes included.
std::string QuoteJson(std::string_view utf8);

}  // namespace deltafin
