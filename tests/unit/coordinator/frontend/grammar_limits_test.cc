// Grammars that are hostile, and vocabularies that are large.

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/message_grammar.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

constexpr char kPerson[] =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":)"
    R"({"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array",)"
    R"("items":{"enum":["new","old"]},"maxItems":3}},)"
    R"("required":["name","age"],"additionalProperties":false})";

absl::StatusOr<std::shared_ptr<const ByteGrammar>> GrammarOf(
    const std::string& schema) {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.response_format = ResponseFormat::kJsonSchema;
  chat.response_schema_json = schema;
  std::string where;
  return MakeMessageGrammar(chat, {"schema", "tools", "parameters", "choice"},
                            where);
}

// Of this thread alone.
double CpuMicros() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) / 1e3;
}

// Schemas that are small and could be large: within bounds, or refused.
TEST(GrammarLimitsTest, BoundsHostileSchemas) {
  std::string defs;
  for (int i = 0; i < 60; ++i) {
    const std::string next = fmt::format("#/$defs/d{}", i + 1);
    defs += fmt::format(
        R"({}"d{}":{{"anyOf":[{{"type":"array","items":{{"$ref":"{}"}}}},)"
        R"({{"type":"array","items":{{"$ref":"{}"}}}}]}})",
        i == 0 ? "" : ",", i, next, next);
  }
  defs += R"(,"d60":true)";
  const std::string ambiguous =
      fmt::format(R"({{"$ref":"#/$defs/d0","$defs":{{{}}}}})", defs);
  const auto grammar = GrammarOf(ambiguous);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const auto constraint = *GrammarConstraint::Create(*grammar, NanoTokenizer());
  for (int i = 0; i < 30; ++i) {
    const int32_t id = *NanoTokenizer().vocabulary().FindRank("[");
    const auto mask = constraint->Allowed();
    if (absl::IsResourceExhausted(mask.status())) break;
    ASSERT_TRUE(mask.ok()) << mask.status();
    ASSERT_NE((*mask)[id / 64] >> (id % 64) & 1, 0);
    constraint->Accept(id);
  }
  std::string counted = "true";
  for (int i = 0; i < 6; ++i) {
    counted = fmt::format(
        R"({{"type":"array","items":{},"minItems":10000,"maxItems":10000}})",
        counted);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(GrammarOf(counted).status()));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "{\"items\":";
  EXPECT_TRUE(absl::IsInvalidArgument(GrammarOf(deep).status()));
}

TEST(GrammarLimitsTest, TakesASchemaOfThousandsOfProperties) {
  std::string objects;
  for (int i = 0; i < 40; ++i) {
    std::string members;
    for (int j = 0; j < 100; ++j) {
      members += fmt::format(R"({}"member_{}":{{"type":"number"}})",
                             j == 0 ? "" : ",", j);
    }
    objects += fmt::format(R"({}"object_{}":{{"type":"object","properties":)"
                           R"({{{}}}}})",
                           i == 0 ? "" : ",", i, members);
  }
  const auto grammar = GrammarOf(
      fmt::format(R"({{"type":"object","properties":{{{}}}}})", objects));
  EXPECT_TRUE(grammar.ok()) << grammar.status();
}

// A step that would take too long ends the request, and no other.
TEST(GrammarLimitsTest, BoundsTheWorkOfAStep) {
  std::string branches;
  for (int i = 0; i < 500; ++i) {
    branches += fmt::format(R"({}{{"type":"string","minLength":{}}})",
                            i == 0 ? "" : ",", i + 1);
  }
  const std::string schemas[] = {
      R"~({"type":"string","pattern":"^((.{0,100}){0,3}){0,3}$"})~",
      R"~({"type":"string","pattern":"(a|b|ab|.)*.{300}(c|.)*$"})~",
      fmt::format(R"({{"anyOf":[{}]}})", branches)};
  for (const std::string& schema : schemas) {
    const auto grammar = GrammarOf(schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    const auto constraint =
        *GrammarConstraint::Create(*grammar, NanoTokenizer());
    constraint->Accept(*NanoTokenizer().vocabulary().FindRank("\""));
    double most = 0;
    int steps = 0;
    for (; steps < 20; ++steps) {
      const double since = CpuMicros();
      const auto mask = constraint->Allowed();
      most = std::max(most, CpuMicros() - since);
      if (absl::IsResourceExhausted(mask.status())) break;
      ASSERT_TRUE(mask.ok()) << mask.status();
      constraint->Accept(*NanoTokenizer().vocabulary().FindRank("a"));
    }
    fmt::print("{} steps, {:.0f} us at most\n", steps, most);
  }
}

// Prints what a mask takes of the processor at a vocabulary of K3's size: every
// byte, and words of letters as frequent as in text.
TEST(GrammarLimitsTest, MakesMasksOfALargeVocabulary) {
  std::mt19937 random(3);
  std::set<std::string> words;
  for (int byte = 0; byte < 256; ++byte) {
    words.insert(std::string(1, static_cast<char>(byte)));
  }
  while (words.size() < 163'840 - kNumReservedTokens) {
    std::string word(random() % 2, ' ');
    const size_t length = 2 + random() % 9;
    for (size_t i = 0; i < length; ++i) {
      word += "etaoinshrdlucmfwypvbgkqjxz\"{},:0123"[std::min(random() % 35,
                                                              random() % 35)];
    }
    words.insert(word);
  }
  std::string ranks;
  int rank = 0;
  for (const std::string& word : words) {
    ranks += fmt::format("{} {}\n", absl::Base64Escape(word), rank++);
  }
  std::string config = R"({"added_tokens_decoder":{)";
  const char* const controls[] = {"<|open|>", "<|close|>", "<|sep|>",
                                  "<|end_of_msg|>"};
  for (int i = 0; i < 4; ++i) {
    config += fmt::format(R"({}"{}":{{"content":"{}","special":true}})",
                          i == 0 ? "" : ",", rank + i, controls[i]);
  }
  const auto vocabulary = Vocabulary::Parse(ranks, config + "}}");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  const Tokenizer tokenizer(*vocabulary);
  auto since = CpuMicros();
  tokenizer.trie();
  fmt::print("tree: {:.0f} us\n", CpuMicros() - since);
  since = CpuMicros();
  const auto grammar = GrammarOf(kPerson);
  fmt::print("grammar: {:.0f} us\n", CpuMicros() - since);
  const auto constraint = *GrammarConstraint::Create(*grammar, tokenizer);
  const std::string text = R"({"name": "Ada", "age": 36, "tags": ["new"]})";
  for (const char c : text) {
    since = CpuMicros();
    const auto mask = constraint->Allowed();
    ASSERT_TRUE(mask.ok()) << mask.status();
    const double first = CpuMicros() - since;
    size_t count = 0;
    for (const uint64_t word : *mask) count += __builtin_popcountll(word);
    since = CpuMicros();
    ASSERT_TRUE(constraint->Allowed().ok());
    fmt::print("'{}': {} tokens, {:.0f} us, again {:.1f} us\n", c, count, first,
               CpuMicros() - since);
    const int32_t id = *tokenizer.vocabulary().FindRank({&c, 1});
    EXPECT_NE((*mask)[id / 64] >> (id % 64) & 1, 0);
    constraint->Accept(id);
  }
}

}  // namespace
}  // namespace deltafin
