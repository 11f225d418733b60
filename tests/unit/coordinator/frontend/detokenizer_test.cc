#include "coordinator/frontend/detokenizer.h"

#include "coordinator/frontend/utf8.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

// Ids of single bytes.
std::vector<int32_t> ByteIds(std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char byte : bytes) {
    ids.push_back(
        *NanoTokenizer().vocabulary().FindRank(std::string_view(&byte, 1)));
  }
  return ids;
}

TEST(DetokenizerTest, HoldsBackAnIncompleteCharacter) {
  Detokenizer detokenizer(NanoTokenizer().vocabulary());
  const auto ids = ByteIds("\xF0\x9F\x99\x82!");
  EXPECT_EQ(detokenizer.Add(ids[0]), "");
  EXPECT_EQ(detokenizer.Add(ids[1]), "");
  EXPECT_EQ(detokenizer.Add(ids[2]), "");
  EXPECT_EQ(detokenizer.Add(ids[3]), "\xF0\x9F\x99\x82");
  EXPECT_EQ(detokenizer.Add(ids[4]), "!");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(DetokenizerTest, ReplacesWhatIsIncompleteAtTheEnd) {
  Detokenizer detokenizer(NanoTokenizer().vocabulary());
  for (const int32_t id : ByteIds("a\xE2\x82")) detokenizer.Add(id);
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(DetokenizerTest, ReplacesInvalidBytesAsPythonDoes) {
  for (const auto& item : ReferenceCases("utf8", 3000)) {
    Detokenizer detokenizer(NanoTokenizer().vocabulary());
    std::string text;
    for (const int32_t id : item["ids"]) text += detokenizer.Add(id);
    text += detokenizer.Flush();
    EXPECT_EQ(text, item["text"].get<std::string>()) << item;
  }
}

TEST(DetokenizerTest, EveryPieceIsWholeUtf8) {
  for (const auto& item : ReferenceCases("utf8", 300)) {
    Detokenizer detokenizer(NanoTokenizer().vocabulary());
    for (const int32_t id : item["ids"]) {
      EXPECT_EQ(FirstInvalidUtf8(detokenizer.Add(id)), std::nullopt);
    }
  }
}

TEST(Utf8Test, EncodesWhatItDecodes) {
  for (char32_t c = 0; c < 0x110000; c = c == 0xD7FF ? 0xE000 : c + 1) {
    std::string bytes;
    AppendUtf8(c, bytes);
    const Utf8Char decoded = DecodeUtf8Char(bytes);
    ASSERT_EQ(decoded.state, Utf8State::kValid) << static_cast<uint32_t>(c);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, bytes.size());
  }
}

}  // namespace
}  // namespace deltafin
