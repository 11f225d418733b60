#include "coordinator/frontend/percent_text.h"

#include <charconv>
#include <cstddef>
#include <cstdint>

namespace deltafin {

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool has_digits =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    decoded += has_digits ? static_cast<char>(byte) : text[i];
    if (has_digits) i += 2;
  }
  return decoded;
}

}  // namespace deltafin
