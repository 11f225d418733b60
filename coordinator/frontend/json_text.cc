#include "coordinator/frontend/json_text.h"

#include "coordinator/frontend/python_json.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

JsonObject& JsonObject::Json(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += QuoteJson(key);
  members_ += ':';
  members_ += json;
  return *this;
}

JsonObject& JsonObject::Text(std::string_view key, std::string_view text) {
  return Json(key, QuoteJson(text));
}

JsonObject& JsonObject::Integer(std::string_view key, int64_t value) {
  return Json(key, fmt::to_string(value));
}

JsonObject& JsonObject::Number(std::string_view key, float value) {
  return Json(key, fmt::format("{}", value));
}

JsonObject& JsonObject::Boolean(std::string_view key, bool value) {
  return Json(key, value ? "true" : "false");
}

JsonObject& JsonObject::Null(std::string_view key) { return Json(key, "null"); }

std::string JsonObject::text() const { return fmt::format("{{{}}}", members_); }

std::string JsonArray(std::span<const std::string> values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Char c = DecodeUtf8Char(bytes);
    const bool is_valid = c.state == Utf8State::kValid;
    text += is_valid ? bytes.substr(0, c.length) : kReplacementCharacter;
    bytes.remove_prefix(c.state == Utf8State::kIncomplete ? bytes.size()
                                                          : c.length);
  }
  return text;
}

}  // namespace deltafin
