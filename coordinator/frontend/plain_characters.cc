#include "coordinator/frontend/plain_characters.h"

#include <algorithm>

#include "coordinator/frontend/utf8.h"

namespace deltafin {
namespace {

bool BeginsPlain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return std::any_of(kPlainCharacters.begin(), kPlainCharacters.end(),
                     [byte](const CharacterBytes& characters) {
                       return characters.bytes[0].Has(byte);
                     });
}

}  // namespace

std::optional<size_t> CountPlainCharacters(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  size_t count = 0;
  for (; !bytes.empty(); ++count) {
    const Utf8Char character = DecodeUtf8Char(bytes);
    if (character.state == Utf8State::kInvalid || !BeginsPlain(bytes[0])) {
      return std::nullopt;
    }
    bytes.remove_prefix(character.length);
  }
  return count;
}

}  // namespace deltafin
