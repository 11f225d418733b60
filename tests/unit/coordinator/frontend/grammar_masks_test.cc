// Masks of tokens, which are made without a walk where all plain tokens are
// allowed, against a walk of every token.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/message_grammar.h"
#include "coordinator/frontend/plain_characters.h"
#include "coordinator/frontend/utf8.h"
#include "tests/testing/synthetic_vocabulary.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using Mask = std::vector<uint64_t>;

bool Has(std::span<const uint64_t> mask, int32_t id) {
  return (mask[id / 64] >> (id % 64) & 1) != 0;
}

// Steps byte by byte through every ordinary token.
class SlowMasks {
 public:
  SlowMasks(std::shared_ptr<const ByteGrammar> grammar,
            const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        states_(std::move(grammar)),
        state_(states_.start()) {}

  Mask Allowed() {
    const Vocabulary& vocabulary = tokenizer_.vocabulary();
    const TokenTrie& trie = tokenizer_.trie();
    Mask mask((vocabulary.size() + 63) / 64);
    std::vector<GrammarStates::State> path(trie.depth() + 1, state_);
    for (size_t i = 0; i < trie.nodes().size();) {
      const TokenTrie::Node& node = trie.nodes()[i];
      const auto next = states_.Next(path[node.depth - 1], node.byte);
      path[node.depth] = next;
      const bool is_dead = next == GrammarStates::kDead;
      if (!is_dead && node.token >= 0) {
        mask[node.token / 64] |= uint64_t{1} << (node.token % 64);
      }
      i = is_dead ? node.next_beside : i + 1;
    }
    return mask;
  }

  void Accept(int32_t id) {
    for (const char c : tokenizer_.vocabulary().Bytes(id)) {
      state_ = states_.Next(state_, static_cast<uint8_t>(c));
    }
  }

 private:
  const Tokenizer& tokenizer_;
  GrammarStates states_;
  GrammarStates::State state_;
};

std::shared_ptr<const ByteGrammar> GrammarOfChat(const ChatRequest& chat) {
  std::string where;
  const auto grammar = MakeMessageGrammar(
      chat, {"schema", "tools", "parameters", "choice"}, where);
  EXPECT_TRUE(grammar.ok()) << where << ": " << grammar.status();
  return *grammar;
}

// Draws ordinary tokens, the ones that end strings often enough.
int32_t Draw(const Mask& mask, const Vocabulary& vocabulary,
             std::mt19937& random) {
  std::vector<int32_t> plain;
  std::vector<int32_t> others;
  for (int32_t id = 0; id < vocabulary.base(); ++id) {
    if (!Has(mask, id)) continue;
    (CountPlainCharacters(vocabulary.Bytes(id)) ? plain : others).push_back(id);
  }
  const bool takes_plain = others.empty() || random() % 4 != 0;
  const auto& from = plain.empty() || !takes_plain ? others : plain;
  return from.empty() ? -1 : from[random() % from.size()];
}

// Follows random texts of a message with both; returns the masks compared.
int CompareMasks(const ChatRequest& chat, const Tokenizer& tokenizer,
                 int num_texts, int num_steps) {
  const auto grammar = GrammarOfChat(chat);
  int compared = 0;
  for (int text = 0; text < num_texts; ++text) {
    std::mt19937 random(text);
    SlowMasks slow(grammar, tokenizer);
    const auto fast = *GrammarConstraint::Create(grammar, tokenizer);
    for (int step = 0; step < num_steps; ++step) {
      const auto allowed = fast->Allowed();
      if (!allowed.ok()) return -1;
      const Mask expected = slow.Allowed();
      for (int32_t id = 0; id < tokenizer.vocabulary().base(); ++id) {
        if (Has(*allowed, id) == Has(expected, id)) continue;
        ADD_FAILURE() << "token " << id << " '"
                      << tokenizer.vocabulary().Bytes(id) << "' at step "
                      << step << " of text " << text;
        return -1;
      }
      ++compared;
      const int32_t next = Draw(expected, tokenizer.vocabulary(), random);
      if (next < 0) break;
      fast->Accept(next);
      slow.Accept(next);
    }
  }
  return compared;
}

ChatRequest SchemaChat(const std::string& schema) {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.response_format = ResponseFormat::kJsonSchema;
  chat.response_schema_json = schema;
  return chat;
}

ChatRequest ToolChat() {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.tool_choice = ToolChoice::kAuto;
  chat.tools_json =
      R"([{"function":{"name":"free"}},{"function":{"name":"held",)"
      R"("strict":true,"parameters":{"type":"object","properties":)"
      R"({"text":{"type":"string"}}}}}])";
  return chat;
}

std::vector<ChatRequest> Chats() {
  std::vector<ChatRequest> chats;
  for (const char* schema :
       {R"({"type":"string"})", R"({"type":"string","maxLength":5})",
        R"({"type":"string","minLength":3})",
        R"({"type":"string","minLength":2,"maxLength":40})",
        R"({"type":"string","pattern":"^[a-z ]{2,9}$"})",
        R"({"type":"string","pattern":".*é.{3}"})",
        R"({"anyOf":[{"type":"string","maxLength":3},)"
        R"({"type":"string","pattern":"^x"},{"type":"integer"}]})",
        R"({"type":"object","properties":{"name":{"type":"string"}},)"
        R"("additionalProperties":{"type":"string","maxLength":8}})",
        R"({"type":"array","items":{"enum":["new","é","\"q\""]}})", "true"}) {
    chats.push_back(SchemaChat(schema));
  }
  chats.push_back(ToolChat());
  return chats;
}

TEST(GrammarMasksTest, EqualAWalkOfEveryTokenOfK3Nano) {
  for (const ChatRequest& chat : Chats()) {
    EXPECT_GT(CompareMasks(chat, NanoTokenizer(), 6, 25), 6)
        << chat.response_schema_json;
  }
}

TEST(GrammarMasksTest, EqualAWalkOfEveryTokenOfALargerVocabulary) {
  const Tokenizer tokenizer(testing::SyntheticVocabulary(20'000));
  for (const ChatRequest& chat : Chats()) {
    EXPECT_GT(CompareMasks(chat, tokenizer, 2, 12), 2)
        << chat.response_schema_json;
  }
}

// Longer than the steps that are kept at a time.
TEST(GrammarMasksTest, StayRightWhenPlacesAreForgotten) {
  const ChatRequest chat =
      SchemaChat(R"({"type":"string","minLength":3000,"maxLength":4000})");
  const auto grammar = GrammarOfChat(chat);
  const auto constraint = *GrammarConstraint::Create(grammar, NanoTokenizer());
  const Vocabulary& vocabulary = NanoTokenizer().vocabulary();
  const int32_t quote = *vocabulary.FindRank("\"");
  const int32_t letter = *vocabulary.FindRank("a");
  constraint->Accept(quote);
  for (int i = 0; i < 4000; ++i) {
    const auto allowed = constraint->Allowed();
    ASSERT_TRUE(allowed.ok()) << i << ": " << allowed.status();
    ASSERT_TRUE(Has(*allowed, letter)) << i;
    ASSERT_EQ(Has(*allowed, quote), i >= 3000) << i;
    constraint->Accept(letter);
  }
  const auto allowed = constraint->Allowed();
  ASSERT_TRUE(allowed.ok());
  EXPECT_FALSE(Has(*allowed, letter));
  EXPECT_TRUE(Has(*allowed, quote));
}

TEST(PlainCharactersTest, AreCountedInWholeAndCutText) {
  EXPECT_EQ(CountPlainCharacters("abc "), 4);
  EXPECT_EQ(CountPlainCharacters("a\u00e9\u4e2d\U0001F600~"), 5);
  EXPECT_EQ(CountPlainCharacters("a\xE4"), 2);
  EXPECT_EQ(CountPlainCharacters("\xF0\x9F\x98"), 1);
  for (const std::string_view other :
       {"", "\"", "a\\", "\n", "a\x7F", "\x80", "\xC0\x80", "\xED\xA0\x80",
        "\xF4\x90", "\xF5",
        "\xE4"
        "a"}) {
    EXPECT_EQ(CountPlainCharacters(other), std::nullopt) << other;
  }
}

// Every byte string of one character is in one group, or in none.
TEST(PlainCharactersTest, AreThoseOfTheTable) {
  for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 61) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string bytes;
    AppendUtf8(code, bytes);
    int groups = 0;
    for (const CharacterBytes& characters : kPlainCharacters) {
      const auto ranges = characters.ranges();
      groups += ranges.size() == bytes.size() &&
                std::equal(ranges.begin(), ranges.end(), bytes.begin(),
                           [](ByteRange range, char byte) {
                             return range.Has(static_cast<uint8_t>(byte));
                           });
    }
    const bool is_plain =
        code >= 0x20 && code != '"' && code != '\\' && code != 0x7F;
    EXPECT_EQ(groups, is_plain ? 1 : 0) << static_cast<uint32_t>(code);
    EXPECT_EQ(CountPlainCharacters(bytes).has_value(), is_plain);
  }
}

}  // namespace
}  // namespace deltafin
