// A token file's text is refused or gives tokens; it is not quoted.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/net/cluster_token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokens = deltafin::ParseClusterTokens(text);
  if (tokens.ok()) {
    if (tokens->empty() || tokens->size() > 4) std::abort();
    return 0;
  }
  const std::string message(tokens.status().message());
  // No run of the text as long as half a token stands in the message.
  for (size_t at = 0; at + 32 <= size; at += 32) {
    if (message.find(text.substr(at, 32)) != std::string::npos) std::abort();
  }
  return 0;
}
