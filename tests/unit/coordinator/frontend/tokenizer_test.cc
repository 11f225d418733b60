#include "coordinator/frontend/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include "coordinator/frontend/pre_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> Pieces(const std::string& utf8) {
  const CharText text = ReadChars(utf8, utf8.size());
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = PieceEnd(text, begin, text.size());
    pieces.emplace_back(text.Bytes(begin, end));
    begin = end;
  }
  return pieces;
}

uint64_t Fnv1a64(const std::vector<int32_t>& ids) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const auto id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash =
          (hash ^ (static_cast<uint32_t>(id) >> shift & 255)) * 0x100000001b3;
    }
  }
  return hash;
}

void ExpectCase(const Tokenizer& tokenizer, const json& item) {
  const std::string text = item["text"];
  EXPECT_EQ(Pieces(text), item["pieces"].get<std::vector<std::string>>())
      << text;
  const auto ids = item["ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(*tokenizer.Encode(text), ids) << text;
  EXPECT_EQ(*tokenizer.Encode(text, SegmentKind::kControl),
            item.value("control_ids", ids))
      << text;
  EXPECT_EQ(*tokenizer.Decode(ids), text);
}

TEST(TokenizerTest, ReproducesTheGoldenCases) {
  const json golden = json::parse(ReadAll(kTextGoldens + "/tokenizer.json"));
  ASSERT_EQ(golden["cases"].size(), 28u);
  for (const json& item : golden["cases"]) ExpectCase(TinyTokenizer(), item);
}

TEST(TokenizerTest, ReproducesTheGoldenLongRuns) {
  const json golden = json::parse(ReadAll(kTextGoldens + "/tokenizer.json"));
  for (const json& item : golden["long"]) {
    std::string text;
    for (int i = 0; i < item["times"]; ++i) {
      text += item["repeat"].get<std::string>();
    }
    const auto ids = *TinyTokenizer().Encode(text);
    ASSERT_EQ(ids.size(), item["count"]) << item["repeat"];
    const auto head = item["head"].get<std::vector<int32_t>>();
    const auto tail = item["tail"].get<std::vector<int32_t>>();
    EXPECT_TRUE(std::equal(head.begin(), head.end(), ids.begin()));
    EXPECT_TRUE(std::equal(tail.rbegin(), tail.rend(), ids.rbegin()));
  }
}

// A tokenizer that looked to the end of the run for every piece would take
// minutes and run into the test's time limit.
TEST(TokenizerTest, CutsLongRunsOfDigitsInThrees) {
  const size_t num_digits = 3 * 25000 * 4;
  const auto three = *NanoTokenizer().Encode("777");
  const auto ids = *NanoTokenizer().Encode(std::string(num_digits, '7'));
  ASSERT_GT(ids.size(), num_digits / 3 * three.size() - 10);
  for (size_t i = 0; i < 25000; ++i) {
    ASSERT_EQ(ids[i], three[i % three.size()]) << i;
  }
}

TEST(TokenizerTest, ReproducesAllCasesOfTheSharedModel) {
  const json golden =
      json::parse(ReadAll(kNanoDir + "/eval/tokenization.json"));
  ASSERT_EQ(golden["cases"].size(), 307u);
  for (const json& item : golden["cases"]) ExpectCase(NanoTokenizer(), item);
}

TEST(TokenizerTest, ReproducesTheIdsOfTheValidationText) {
  const json golden =
      json::parse(ReadAll(kNanoDir + "/eval/tokenization.json"));
  const std::string text = ReadAll(kNanoDir + "/eval/validation.txt");
  const auto ids = *NanoTokenizer().Encode(text);
  EXPECT_EQ(ids.size(), golden["validation"]["tokens"]);
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016lx", Fnv1a64(ids));
  EXPECT_EQ(hash, golden["validation"]["fnv1a64_u32le"]);
  EXPECT_EQ(*NanoTokenizer().Decode(ids), text);
}

TEST(TokenizerTest, AgreesWithTheReferenceOnRandomText) {
  for (const json& item : ReferenceCases("tokenizer", 1000)) {
    ExpectCase(NanoTokenizer(), item);
  }
}

TEST(TokenizerTest, ManyThreadsEncodeAtOnce) {
  const std::string text = "Several threads, one tokenizer: the same ids.";
  const auto expected = *NanoTokenizer().Encode(text);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(*NanoTokenizer().Encode(text), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerTest, OrdinaryTextNeverYieldsControlIds) {
  for (int32_t id = 3840; id < 4096; ++id) {
    const std::string spelling(NanoTokenizer().vocabulary().Bytes(id));
    const auto ids = *NanoTokenizer().Encode("x " + spelling + "y");
    for (const int32_t got : ids) {
      EXPECT_LT(got, 3840) << spelling;
    }
    EXPECT_EQ(*NanoTokenizer().Encode(spelling, SegmentKind::kControl),
              std::vector<int32_t>{id});
  }
}

TEST(TokenizerTest, NamesTheByteWhereTextIsNotUtf8) {
  const auto ids = NanoTokenizer().Encode("abc\xC3(");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("byte 3"));
  EXPECT_FALSE(NanoTokenizer().Encode("\xED\xA0\x80").ok());
}

TEST(TokenizerTest, RefusesAVocabularyThatContradictsTheConfig) {
  const auto tokenizer = Tokenizer::Load(kTinyDir, 641);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("641"));
}

TEST(TokenizerTest, RefusesToDecodeIdsOutsideTheVocabulary) {
  EXPECT_FALSE(TinyTokenizer().Decode(std::vector<int32_t>{640}).ok());
  EXPECT_FALSE(TinyTokenizer().Decode(std::vector<int32_t>{-1}).ok());
}

}  // namespace
}  // namespace deltafin
