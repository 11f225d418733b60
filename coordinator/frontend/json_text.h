// coordinator/frontend/json_text.h
//
// Writes JSON, compact and with members in the order given. Thread-compatible.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace deltafin {

// Text values and keys are UTF-8; text from outside that may be none goes
// through ReplaceInvalidUtf8 first.
class JsonObject {
 public:
  JsonObject& Text(std::string_view key, std::string_view text);
  JsonObject& Integer(std::string_view key, int64_t value);
  // Finite; shortest digits that read back as the same float.
  JsonObject& Number(std::string_view key, float value);
  JsonObject& Boolean(std::string_view key, bool value);
  JsonObject& Null(std::string_view key);
  // `json` stands as it is.
  JsonObject& Json(std::string_view key, std::string_view json);

  std::string text() const;

 private:
  std::string members_;
};

// "[a,b]" of values that are JSON already.
std::string JsonArray(std::span<const std::string> values);

// The text with U+FFFD for what is no UTF-8.
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace deltafin
