#include "tests/testing/synthetic_vocabulary.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin::testing {
namespace {

class WordSource {
 public:
  std::string Next() {
    const uint32_t kind = random_() % 100;
    if (kind < 84) return Letters("etaoinshrdlucmfwypvbgkqjxz0123");
    if (kind < 92) return Letters("etaoin\"\"{}[],:\\\n 0123");
    if (kind < 94) return Letters(" \n\t\r");
    return Characters();
  }

 private:
  // Early letters are frequent.
  std::string Letters(std::string_view alphabet) {
    std::string word(random_() % 2, ' ');
    const size_t length = 2 + random_() % 9;
    for (size_t i = 0; i < length; ++i) {
      word += alphabet[std::min(random_() % alphabet.size(),
                                random_() % alphabet.size())];
    }
    return word;
  }

  // Sometimes without its first or last byte.
  std::string Characters() {
    constexpr std::pair<char32_t, char32_t> kRanges[] = {
        {0x400, 0x4FF}, {0x4E00, 0x9FFF}, {0x4E00, 0x9FFF}, {0x1F300, 0x1FAFF}};
    const auto [first, last] = kRanges[random_() % 4];
    std::string word;
    const size_t length = 1 + random_() % 4;
    for (size_t i = 0; i < length; ++i) {
      AppendUtf8(first + random_() % (last - first + 1), word);
    }
    if (random_() % 8 == 0) word.erase(0, 1);
    if (random_() % 4 == 0) word.pop_back();
    return word;
  }

  std::mt19937 random_{3};
};

std::string ReservedConfig(int base) {
  std::string names;
  int id = base;
  for (const char* name :
       {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}) {
    names += fmt::format(R"({}"{}":{{"content":"{}","special":true}})",
                         id == base ? "" : ",", id, name);
    ++id;
  }
  return fmt::format(R"({{"added_tokens_decoder":{{{}}}}})", names);
}

}  // namespace

Vocabulary SyntheticVocabulary(int size) {
  const int base = size - kNumReservedTokens;
  std::set<std::string> words;
  for (int byte = 0; byte < 256; ++byte) {
    words.insert(std::string(1, static_cast<char>(byte)));
  }
  WordSource source;
  while (std::ssize(words) < base) {
    const std::string word = source.Next();
    if (!word.empty()) words.insert(word);
  }
  std::string ranks;
  int rank = 0;
  for (const std::string& word : words) {
    ranks += fmt::format("{} {}\n", absl::Base64Escape(word), rank++);
  }
  auto vocabulary = Vocabulary::Parse(ranks, ReservedConfig(base));
  CHECK_OK(vocabulary.status());
  return *std::move(vocabulary);
}

}  // namespace deltafin::testing
