#include "coordinator/frontend/vocabulary.h"

#include <random>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/frontend/byte_pair_encoder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

constexpr char kNoNames[] = R"({"added_tokens_decoder": {}})";

std::string Line(const std::string& token, int rank) {
  return absl::StrCat(absl::Base64Escape(token), " ", rank, "\n");
}

std::string ByteRanks() {
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte) {
    ranks += Line(std::string(1, static_cast<char>(byte)), byte);
  }
  return ranks;
}

void ExpectRefused(const std::string& ranks, const std::string& config,
                   const std::string& message) {
  const auto vocabulary = Vocabulary::Parse(ranks, config);
  EXPECT_EQ(vocabulary.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(vocabulary.status().message()), HasSubstr(message));
}

TEST(VocabularyTest, FindsTokensBothWays) {
  const auto vocabulary =
      *Vocabulary::Parse(ByteRanks() + Line("ab", 256), kNoNames);
  EXPECT_EQ(vocabulary.base(), 257);
  EXPECT_EQ(vocabulary.size(), 513);
  EXPECT_EQ(vocabulary.FindRank("ab"), 256);
  EXPECT_EQ(vocabulary.Bytes(256), "ab");
  EXPECT_EQ(vocabulary.FindRank("ba"), std::nullopt);
  EXPECT_EQ(vocabulary.Bytes(257), "<|reserved_token_257|>");
  EXPECT_EQ(vocabulary.FindControl("<|reserved_token_512|>"), 512);
  EXPECT_EQ(vocabulary.FindControl("<|reserved_token_513|>"), std::nullopt);
}

TEST(VocabularyTest, RefusesRankFilesByLine) {
  ExpectRefused(ByteRanks() + Line("ab", 257), kNoNames, "line 257: rank");
  ExpectRefused(ByteRanks() + Line("a", 256), kNoNames,
                "line 257: duplicate token");
  ExpectRefused(ByteRanks() + "a=b= 256\n", kNoNames,
                "line 257: malformed base64");
  ExpectRefused(ByteRanks() + "\n", kNoNames, "line 257");
  ExpectRefused(ByteRanks() + " 256\n", kNoNames, "line 257");
  ExpectRefused(Line("ab", 0), kNoNames, "single byte 0");
  ExpectRefused("", kNoNames, "single byte 0");
}

TEST(VocabularyTest, RefusesReservedTokensByKey) {
  ExpectRefused(ByteRanks(), "{", "tokenizer_config.json");
  ExpectRefused(ByteRanks(), "{}", "added_tokens_decoder");
  ExpectRefused(ByteRanks(), R"({"added_tokens_decoder": {"255": {}}})",
                "id 255");
  ExpectRefused(ByteRanks(),
                R"({"added_tokens_decoder": {"512": {"content": "x"}}})",
                "id 512");
  ExpectRefused(ByteRanks(), R"({"added_tokens_decoder": {"256": {}}})",
                "id 256 has no content");
  ExpectRefused(ByteRanks(),
                R"({"added_tokens_decoder": {"256": {"content": "x"},
                                             "257": {"content": "x"}}})",
                "ids 256 and 257");
}

TEST(VocabularyTest, OfSeveralControlPrefixesTheFirstInOrderWins) {
  const auto vocabulary = *Vocabulary::Parse(
      ByteRanks(), R"({"added_tokens_decoder": {"256": {"content": "<ab>"},
                                                "257": {"content": "<a"}}})");
  EXPECT_EQ(vocabulary.ControlPrefix("<ab>"), 257);
  EXPECT_EQ(vocabulary.ControlPrefix("x<ab>"), std::nullopt);
}

// As many tokens as K3 has; a quadratic loader or encoder would take minutes
// and run into the test's time limit.
TEST(VocabularyTest, HoldsAVocabularyOfTheRealSize) {
  std::string ranks = ByteRanks();
  for (int rank = 256; rank < 163584; ++rank) {
    std::string token;  // the rank in base 26
    for (int digits = rank; digits > 0; digits /= 26) {
      token += static_cast<char>('a' + digits % 26);
    }
    ranks += Line(token, rank);
  }
  const auto vocabulary = *Vocabulary::Parse(ranks, kNoNames);
  EXPECT_EQ(vocabulary.size(), 163840);
  std::mt19937 random(1);
  std::string piece;
  for (int i = 0; i < 25000; ++i) piece += 'a' + random() % 26;
  std::vector<int32_t> ids;
  BytePairEncoder(vocabulary).Encode(piece, ids);
  std::string decoded;
  for (const int32_t id : ids) decoded += vocabulary.Bytes(id);
  EXPECT_EQ(decoded, piece);
}

// Merges the adjacent pair of the lowest rank until none is left, by
// rescanning.
std::vector<int32_t> EncodeByRescanning(const Vocabulary& vocabulary,
                                        const std::string& piece) {
  if (const auto whole = vocabulary.FindRank(piece)) return {*whole};
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  while (true) {
    std::optional<int32_t> best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = vocabulary.FindRank(parts[i] + parts[i + 1]);
      if (rank && (!best || *rank < *best)) {
        best = rank;
        at = i;
      }
    }
    if (!best) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const auto& part : parts) ids.push_back(*vocabulary.FindRank(part));
  return ids;
}

TEST(BytePairEncoderTest, AgreesWithRescanning) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    std::string ranks = ByteRanks();
    std::set<std::string> seen;
    for (int rank = 256; rank < 300;) {
      std::string token;
      for (size_t n = 2 + random() % 5; n > 0; --n) token += 'a' + random() % 2;
      if (seen.insert(token).second) ranks += Line(token, rank++);
    }
    const auto vocabulary = *Vocabulary::Parse(ranks, kNoNames);
    BytePairEncoder encoder(vocabulary);
    for (int i = 0; i < 50; ++i) {
      std::string piece;
      for (size_t n = 1 + random() % 30; n > 0; --n)
        piece += 'a' + random() % 2;
      std::vector<int32_t> ids;
      encoder.Encode(piece, ids);
      EXPECT_EQ(ids, EncodeByRescanning(vocabulary, piece)) << piece;
    }
  }
}

}  // namespace
}  // namespace deltafin
