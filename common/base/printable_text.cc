#include "common/base/printable_text.h"

#include <cstdint>

namespace deltafin {
namespace {

bool IsAsciiControl(char c) {
  return static_cast<uint8_t>(c) < ' ' || c == 0x7f;
}

// U+0080 to U+009F: terminals take U+009B for the beginning of a command.
bool IsHighControl(std::string_view text) {
  if (text.size() < 2 || text[0] != '\xc2') return false;
  const auto second = static_cast<uint8_t>(text[1]);
  return second >= 0x80 && second <= 0x9f;
}

std::string WithoutControls(std::string_view text, char kept) {
  std::string printable;
  printable.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsHighControl(text.substr(i))) {
      printable += '?';
      ++i;
    } else {
      const bool stays = text[i] == kept || !IsAsciiControl(text[i]);
      printable += stays ? text[i] : '?';
    }
  }
  return printable;
}

}  // namespace

std::string OneLine(std::string_view text) {
  return WithoutControls(text, ' ');
}

std::string PrintableLines(std::string_view text) {
  return WithoutControls(text, '\n');
}

}  // namespace deltafin
