#include "common/base/random_id.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

uint64_t RandomNumber() {
  std::random_device source;  // getrandom
  uint64_t number = 0;
  while (number == 0) number = uint64_t{source()} << 32 | source();
  return number;
}

std::string RandomId() {
  return fmt::format("{:016x}{:016x}", RandomNumber(), RandomNumber());
}

bool IsRandomId(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return text.size() == 32 &&
         text.find_first_not_of(kDigits) == std::string::npos;
}

}  // namespace deltafin
