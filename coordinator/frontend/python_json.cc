#include "coordinator/frontend/python_json.h"

#include <algorithm>
#include <cstdio>

namespace deltafin {
namespace {

enum class Style : uint8_t { kSpaced, kCompactSorted };

void Append(const JsonValue& value, Style style, std::string& out);

std::vector<const JsonMember*> MembersInOrder(const JsonValue& object,
                                              Style style) {
  std::vector<const JsonMember*> members;
  for (const JsonMember& member : object.members) members.push_back(&member);
  if (style == Style::kCompactSorted) {
    // UTF-8 sorts as its code points do.
    std::sort(members.begin(), members.end(),
              [](const auto* a, const auto* b) { return a->key < b->key; });
  }
  return members;
}

void AppendObject(const JsonValue& object, Style style, std::string& out) {
  const bool compact = style == Style::kCompactSorted;
  std::string_view separator = "";
  out += '{';
  for (const JsonMember* member : MembersInOrder(object, style)) {
    out += separator;
    out += QuoteJson(member->key);
    out += compact ? ":" : ": ";
    Append(member->value, style, out);
    separator = compact ? "," : ", ";
  }
  out += '}';
}

void AppendArray(const JsonValue& array, Style style, std::string& out) {
  std::string_view separator = "";
  out += '[';
  for (const JsonValue& item : array.items) {
    out += separator;
    Append(item, style, out);
    separator = style == Style::kCompactSorted ? "," : ", ";
  }
  out += ']';
}

void Append(const JsonValue& value, Style style, std::string& out) {
  switch (value.kind) {
    case JsonValue::Kind::kObject:
      return AppendObject(value, style, out);
    case JsonValue::Kind::kArray:
      return AppendArray(value, style, out);
    case JsonValue::Kind::kString:
      out += QuoteJson(value.text);
      return;
    default:
      out += value.text;
  }
}

void AppendEscaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\b':
      out += "\\b";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(c) >= 0x20) {
    out += c;
    return;
  }
  char escape[8];
  std::snprintf(escape, sizeof(escape), "\\u%04x", c);
  out += escape;
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string DumpJson(const JsonValue& value) {
  std::string out;
  Append(value, Style::kSpaced, out);
  return out;
}

std::string DumpCompactSortedJson(const JsonValue& value) {
  std::string out;
  Append(value, Style::kCompactSorted, out);
  return out;
}

std::string QuoteJson(std::string_view utf8) {
  std::string out = "\"";
  for (const char c : utf8) AppendEscaped(c, out);
  out += '"';
  return out;
}

}  // namespace deltafin
