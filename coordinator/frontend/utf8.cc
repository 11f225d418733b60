#include "coordinator/frontend/utf8.h"

#include <algorithm>

namespace deltafin {
namespace {

// What a first byte announces: how long the character is and which second
// bytes may follow (Unicode 3.9, table 3-7).
struct Lead {
  uint8_t length;  // 0: no character begins so
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char DecodeUtf8Char(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  const Lead lead = LeadOf(first);
  if (lead.length == 0) return {0, 1, Utf8State::kInvalid};
  if (lead.length == 1) return {first, 1, Utf8State::kValid};
  char32_t code_point = first & (0x7F >> lead.length);
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {0, i, Utf8State::kIncomplete};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {0, i, Utf8State::kInvalid};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, lead.length, Utf8State::kValid};
}

std::optional<size_t> FirstInvalidUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = DecodeUtf8Char(bytes.substr(at));
    if (c.state != Utf8State::kValid) return at;
    at += c.length;
  }
  return std::nullopt;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  const int tails = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const auto mark = static_cast<uint8_t>(0xF0 << (3 - tails));
  out += static_cast<char>(mark | code_point >> 6 * tails);
  for (int shift = 6 * (tails - 1); shift >= 0; shift -= 6) {
    out += static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  }
}

}  // namespace deltafin
