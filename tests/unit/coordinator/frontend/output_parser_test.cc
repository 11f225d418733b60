#include "coordinator/frontend/output_parser.h"

#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

struct Output {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
};

// Parses ids one by one, as they stream.
Output Parse(const std::vector<int32_t>& ids,
             OutputChannel initial = OutputChannel::kThink,
             OutputEnd end = OutputEnd::kComplete) {
  OutputParser parser(NanoTokenizer().vocabulary(),
                      *ChatTokens::Find(NanoTokenizer()), initial);
  Output output;
  const auto add = [&](const ParsedText& text) {
    output.content += text.content;
    output.reasoning += text.reasoning;
  };
  for (const int32_t id : ids) add(parser.Add(id));
  add(parser.Finish(end));
  output.calls = parser.tool_calls();
  return output;
}

constexpr char kWhole[] =
    "I think.<|close|>think<|sep|><|open|>response<|sep|>Hello, Hump."
    "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";

constexpr char kCalls[] =
    "<|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|>"
    "<|open|>tools<|sep|>"
    "<|open|>call tool=\"a&amp;&quot;b\" index=\"1\"<|sep|>"
    "<|open|>argument key=\"city\" type=\"string\"<|sep|>Os\"lo"
    "<|close|>argument<|sep|>"
    "<|open|>argument key=\"n\" type=\"number\"<|sep|>1.50"
    "<|close|>argument<|sep|>"
    "<|open|>argument key=\"bad\" type=\"object\"<|sep|>{oops"
    "<|close|>argument<|sep|><|close|>call<|sep|>"
    "<|open|>call tool=\"raw\" index=\"2\"<|sep|>"
    "<|open|>json type=\"object\"<|sep|>{\"x\": 1}<|close|>json<|sep|>"
    "<|close|>call<|sep|><|close|>tools<|sep|>"
    "<|close|>message<|sep|><|end_of_msg|>";

TEST(OutputParserTest, SplitsReasoningFromTheAnswer) {
  const Output output = Parse(ControlIds(kWhole));
  EXPECT_EQ(output.reasoning, "I think.");
  EXPECT_EQ(output.content, "Hello, Hump.");
  EXPECT_TRUE(output.calls.empty());
}

TEST(OutputParserTest, BeginsInTheResponseWhenThinkingIsOff) {
  const Output output =
      Parse(ControlIds("Hi.<|close|>response<|sep|><|close|>message<|sep|>"),
            OutputChannel::kResponse);
  EXPECT_EQ(output.content, "Hi.");
  EXPECT_EQ(output.reasoning, "");
}

TEST(OutputParserTest, ParsesTheRepliesOfTheSharedModel) {
  const auto golden =
      nlohmann::json::parse(ReadAll(kNanoDir + "/eval/golden.json"));
  const char* const answers[] = {"Hello, Hump.", "I'm going to see the doctor.",
                                 "No, I don't.",
                                 "I am not afraid of the wind."};
  for (int i = 0; i < 4; ++i) {
    const auto& prompt = golden["chat_prompts"][i];
    const Output output = Parse(
        prompt["float32"]["greedy"].get<std::vector<int32_t>>(),
        prompt["thinking"] ? OutputChannel::kThink : OutputChannel::kResponse);
    EXPECT_EQ(output.content, answers[i]);
    EXPECT_EQ(output.reasoning, "");
  }
}

TEST(OutputParserTest, CollectsToolCallsWithArgumentsInOrder) {
  const Output output = Parse(ControlIds(kCalls));
  ASSERT_EQ(output.calls.size(), 2u);
  EXPECT_EQ(output.calls[0].id, "call_1");
  EXPECT_EQ(output.calls[0].name, "a&\"b");
  EXPECT_EQ(output.calls[0].arguments_json,
            R"({"city": "Os\"lo", "n": 1.50, "bad": "{oops"})");
  EXPECT_EQ(output.calls[1].id, "call_2");
  EXPECT_EQ(output.calls[1].name, "raw");
  EXPECT_EQ(output.calls[1].arguments_json, R"({"x": 1})");
  EXPECT_EQ(output.content, "ok");
}

TEST(OutputParserTest, SpellingsInOrdinaryTokensAreText) {
  const auto ids = *NanoTokenizer().Encode("a<|close|>think<|sep|>b");
  const Output output = Parse(ids);
  EXPECT_EQ(output.reasoning, "a<|close|>think<|sep|>b");
  EXPECT_EQ(output.content, "");
}

TEST(OutputParserTest, AnElementLeftOpenEndsWhereTheNextOneOpens) {
  const Output output =
      Parse(ControlIds("why<|open|>response<|sep|>so<|close|>message<|sep|>"
                       "lost<|end_of_msg|>after"));
  EXPECT_EQ(output.reasoning, "why");
  EXPECT_EQ(output.content, "so");
}

TEST(OutputParserTest, ACloseWithoutItsElementIsIgnored) {
  const Output output =
      Parse(ControlIds("a<|close|>response<|sep|>b<|close|>argument<|sep|>c"));
  EXPECT_EQ(output.reasoning, "abc");
}

TEST(OutputParserTest, ACutCharacterBeforeStructureIsReplaced) {
  auto ids = ControlIds("a");
  ids.push_back(*NanoTokenizer().vocabulary().FindRank("\xE2"));
  for (const int32_t id : ControlIds("<|close|>think<|sep|>")) {
    ids.push_back(id);
  }
  EXPECT_EQ(Parse(ids).reasoning, "a\uFFFD");
}

TEST(OutputParserTest, AnOpenCallCountsOnlyIfTheModelEndedTheMessage) {
  const auto ids = ControlIds(
      "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>"
      "<|open|>argument key=\"k\" type=\"string\"<|sep|>val");
  EXPECT_TRUE(Parse(ids, OutputChannel::kThink, OutputEnd::kCut).calls.empty());
  const Output ended = Parse(ids);
  ASSERT_EQ(ended.calls.size(), 1u);
  EXPECT_EQ(ended.calls[0].arguments_json, R"({"k": "val"})");
}

// --- streaming ---

// The calls as their additions make them.
std::vector<ToolCall> Join(const std::vector<ToolCallDelta>& deltas) {
  std::vector<ToolCall> calls;
  for (const ToolCallDelta& delta : deltas) {
    if (delta.begins) calls.push_back({"", delta.name, ""});
    EXPECT_EQ(delta.index, std::ssize(calls) - 1);
    calls.back().arguments_json += delta.arguments;
  }
  return calls;
}

TEST(OutputParserTest, CallsStreamAsTheyAreInTheEnd) {
  OutputParser parser(NanoTokenizer().vocabulary(),
                      *ChatTokens::Find(NanoTokenizer()),
                      OutputChannel::kThink);
  std::vector<ToolCallDelta> deltas;
  for (const int32_t id : ControlIds(kCalls)) {
    for (const ToolCallDelta& delta : parser.Add(id).calls) {
      deltas.push_back(delta);
    }
  }
  EXPECT_GT(deltas.size(), 6u);  // arguments come in pieces
  const std::vector<ToolCall> joined = Join(deltas);
  ASSERT_EQ(joined.size(), parser.tool_calls().size());
  for (size_t i = 0; i < joined.size(); ++i) {
    EXPECT_EQ(joined[i].name, parser.tool_calls()[i].name);
    EXPECT_EQ(joined[i].arguments_json, parser.tool_calls()[i].arguments_json);
  }
}

// Whatever the tokens are cut into, the additions are those of whole strings.
TEST(OutputParserTest, CallsStreamAlikeHoweverTheyAreCut) {
  const auto ids = ControlIds(kCalls);
  std::vector<int32_t> bytes;
  const Vocabulary& vocabulary = NanoTokenizer().vocabulary();
  for (const int32_t id : ids) {
    if (id >= vocabulary.base()) {
      bytes.push_back(id);
      continue;
    }
    for (const char byte : vocabulary.Bytes(id)) {
      bytes.push_back(*vocabulary.FindRank(std::string_view(&byte, 1)));
    }
  }
  const Output whole = Parse(ids);
  const Output cut = Parse(bytes);
  ASSERT_EQ(cut.calls.size(), whole.calls.size());
  for (size_t i = 0; i < whole.calls.size(); ++i) {
    EXPECT_EQ(cut.calls[i].arguments_json, whole.calls[i].arguments_json);
  }
  EXPECT_EQ(cut.content, whole.content);
}

TEST(OutputParserTest, StringArgumentsComeWhileTheModelWrites) {
  OutputParser parser(NanoTokenizer().vocabulary(),
                      *ChatTokens::Find(NanoTokenizer()),
                      OutputChannel::kThink);
  std::string arguments;
  for (const int32_t id : ControlIds(
           "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|><|open|>argument "
           "key=\"text\" type=\"string\"<|sep|>one \"two\" three")) {
    for (const ToolCallDelta& delta : parser.Add(id).calls) {
      arguments += delta.arguments;
    }
  }
  EXPECT_EQ(arguments, R"({"text": "one \"two\" three)");
  // A cut call has no end.
  EXPECT_TRUE(parser.Finish(OutputEnd::kCut).calls.empty());
}

TEST(OutputParserTest, AnObjectAfterArgumentsIsDropped) {
  const Output output = Parse(ControlIds(
      "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>"
      "<|open|>argument key=\"k\" type=\"string\"<|sep|>v<|close|>argument"
      "<|sep|><|open|>json type=\"object\"<|sep|>{}<|close|>json<|sep|>"
      "<|close|>call<|sep|><|open|>call "
      "tool=\"g\"<|sep|><|close|>call<|sep|>"));
  ASSERT_EQ(output.calls.size(), 2u);
  EXPECT_EQ(output.calls[0].arguments_json, R"({"k": "v"})");
  EXPECT_EQ(output.calls[1].arguments_json, "{}");
}

TEST(OutputParserTest, TellsWhatATokenIsPartOf) {
  OutputParser parser(NanoTokenizer().vocabulary(),
                      *ChatTokens::Find(NanoTokenizer()),
                      OutputChannel::kThink);
  std::string parts;
  for (const int32_t id : ControlIds(kWhole)) {
    const OutputPart part = parser.Add(id).part;
    const char letter = part == OutputPart::kReasoning ? 'r'
                        : part == OutputPart::kContent ? 'c'
                                                       : 's';
    if (parts.empty() || parts.back() != letter) parts += letter;
  }
  EXPECT_EQ(parts, "rscs");
}

// What came first never changes with what comes later.
TEST(OutputParserTest, EveryPrefixGivesAPrefixOfTheWhole) {
  for (const char* const text : {kWhole, kCalls}) {
    const auto ids = ControlIds(text);
    const Output whole = Parse(ids);
    for (size_t n = 0; n <= ids.size(); ++n) {
      const Output part = Parse({ids.begin(), ids.begin() + n},
                                OutputChannel::kThink, OutputEnd::kCut);
      EXPECT_TRUE(whole.content.starts_with(part.content));
      EXPECT_TRUE(whole.reasoning.starts_with(part.reasoning));
      ASSERT_LE(part.calls.size(), whole.calls.size());
      for (size_t i = 0; i < part.calls.size(); ++i) {
        EXPECT_EQ(part.calls[i].arguments_json, whole.calls[i].arguments_json);
      }
    }
  }
}

}  // namespace
}  // namespace deltafin
