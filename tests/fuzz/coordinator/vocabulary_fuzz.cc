// Input: a rank file, or a tokenizer_config.json after a byte 0. The other half
// is a sound one. What is accepted must encode and decode.

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/frontend/tokenizer.h"
#include "coordinator/frontend/vocabulary.h"

namespace {

const std::string& ByteRanks() {
  static const std::string ranks = [] {
    std::string lines;
    for (int byte = 0; byte < 256; ++byte) {
      const std::string token(1, static_cast<char>(byte));
      absl::StrAppend(&lines, absl::Base64Escape(token), " ", byte, "\n");
    }
    return lines;
  }();
  return ranks;
}

// Byte tokens first, so that mutations reach what follows them.
absl::StatusOr<deltafin::Vocabulary> ParseInput(std::string_view input) {
  if (!input.empty() && input[0] == '\0') {
    return deltafin::Vocabulary::Parse(ByteRanks(), input.substr(1));
  }
  return deltafin::Vocabulary::Parse(ByteRanks() + std::string(input),
                                     R"({"added_tokens_decoder": {}})");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  auto vocabulary = ParseInput({reinterpret_cast<const char*>(bytes), size});
  if (!vocabulary.ok()) return 0;
  const deltafin::Tokenizer tokenizer(*std::move(vocabulary));
  const std::string text = "A text, with <|sep|> 123 \xE4\xBD\xA0\n";
  for (const auto kind :
       {deltafin::SegmentKind::kText, deltafin::SegmentKind::kControl}) {
    const auto ids = tokenizer.Encode(text, kind);
    CHECK_OK(ids.status());
    CHECK(*tokenizer.Decode(*ids) == text);
  }
  return 0;
}
