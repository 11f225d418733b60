#include "coordinator/frontend/detokenizer.h"

#include <string_view>

#include "coordinator/frontend/utf8.h"

namespace deltafin {

std::string Detokenizer::Add(int32_t id) {
  pending_ += vocabulary_.Bytes(id);
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const Utf8Char c = DecodeUtf8Char(rest);
    if (c.state == Utf8State::kIncomplete) break;
    text += c.state == Utf8State::kValid ? rest.substr(0, c.length)
                                         : kReplacementCharacter;
    at += c.length;
  }
  pending_.erase(0, at);
  return text;
}

std::string Detokenizer::Flush() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace deltafin
