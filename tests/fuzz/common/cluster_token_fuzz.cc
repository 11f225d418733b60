// A token file's text is refused or gives tokens; it is not quoted.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/net/cluster_token.h"

namespace {

constexpr size_t kHalfToken = 32;
constexpr std::string_view kDigits = "0123456789abcdefABCDEF";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokens = deltafin::ParseClusterTokens(text);
  if (tokens.ok()) {
    if (tokens->empty() || tokens->size() > 4) std::abort();
    return 0;
  }
  const std::string message(tokens.status().message());
  // No digits of the text as long as half a token stand in the message.
  for (size_t at = 0; at + kHalfToken <= size; at += kHalfToken) {
    const std::string_view half = text.substr(at, kHalfToken);
    if (half.find_first_not_of(kDigits) == std::string_view::npos &&
        message.find(half) != std::string::npos) {
      std::abort();
    }
  }
  return 0;
}
