#include "coordinator/frontend/grammar_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "coordinator/frontend/message_grammar.h"
#include "coordinator/frontend/output_parser.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/coordinator/frontend/grammar_fixture.h"
#include "tests/unit/coordinator/frontend/schema_validator.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

constexpr char kPerson[] =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":)"
    R"({"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array",)"
    R"("items":{"enum":["new","old"]},"maxItems":3}},)"
    R"("required":["name","age"],"additionalProperties":false})";
constexpr char kTools[] =
    R"([{"type":"function","function":{"name":"weather","parameters":)"
    R"({"type":"object","properties":{"city":{"type":"string","minLength":1},)"
    R"("days":{"type":"integer","minimum":1,"maximum":9},"unit":)"
    R"({"enum":["C","F",null]}},"required":["city"]}}},)"
    R"({"type":"function","function":{"name":"time"}}])";
constexpr char kEnd[] =
    "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";

ChatRequest JsonChat(const std::string& schema,
                     Thinking thinking = Thinking::kOff) {
  ChatRequest chat;
  chat.thinking = thinking;
  chat.response_format = ResponseFormat::kJsonSchema;
  chat.response_schema_json = schema;
  return chat;
}

ChatRequest ToolChat(const std::string& name = "") {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.tools_json = kTools;
  chat.tool_choice = ToolChoice::kRequired;
  chat.tool_name = name;
  return chat;
}

constexpr MessageFields kFields = {"schema", "tools", "function.parameters",
                                   "choice"};

std::shared_ptr<GrammarConstraint> ConstraintOf(const ChatRequest& chat) {
  std::string where;
  const auto grammar = MakeMessageGrammar(chat, kFields, where);
  EXPECT_TRUE(grammar.ok()) << where << ": " << grammar.status();
  const auto constraint = GrammarConstraint::Create(*grammar, NanoTokenizer());
  EXPECT_TRUE(constraint.ok()) << constraint.status();
  return *constraint;
}

std::vector<int32_t> AllowedIds(GrammarConstraint& constraint) {
  const auto mask = constraint.Allowed();
  std::vector<int32_t> ids;
  if (!mask.ok()) return ids;
  for (int32_t id = 0; id < NanoTokenizer().vocabulary().size(); ++id) {
    if (((*mask)[id / 64] >> (id % 64) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

bool Allows(GrammarConstraint& constraint, int32_t id) {
  const auto mask = constraint.Allowed();
  return mask.ok() && ((*mask)[id / 64] >> (id % 64) & 1) != 0;
}

// Whether all of the ids are allowed, one after the other, and the message then
// complete.
bool Takes(const ChatRequest& chat, const std::vector<int32_t>& ids) {
  const auto constraint = ConstraintOf(chat);
  for (const int32_t id : ids) {
    if (!Allows(*constraint, id)) return false;
    constraint->Accept(id);
  }
  return constraint->is_complete();
}

std::vector<int32_t> Joined(std::vector<int32_t> ids,
                            const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// A message of random allowed tokens; after a while those that lead to an end.
std::vector<int32_t> DrawMessage(const ChatRequest& chat, uint32_t seed) {
  constexpr size_t kFree = 40;
  constexpr std::string_view kEnding = "\"}]0.nt:,";
  const Vocabulary& vocabulary = NanoTokenizer().vocabulary();
  std::mt19937 random(seed);
  const auto constraint = ConstraintOf(chat);
  std::vector<int32_t> ids;
  while (!constraint->is_complete() && ids.size() < 3000) {
    const std::vector<int32_t> allowed = AllowedIds(*constraint);
    if (allowed.empty()) break;
    int32_t next = allowed[random() % allowed.size()];
    if (ids.size() > kFree) {
      size_t best = kEnding.size();
      for (const int32_t id : allowed) {
        const std::string_view bytes = vocabulary.Bytes(id);
        const size_t at =
            bytes.size() == 1 ? kEnding.find(bytes[0]) : kEnding.npos;
        if (at < best) next = id, best = at;
      }
      if (allowed.back() >= vocabulary.base()) next = allowed.back();
    }
    ids.push_back(next);
    constraint->Accept(next);
  }
  EXPECT_TRUE(constraint->is_complete());
  return ids;
}

struct Message {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
};

Message Parse(const ChatRequest& chat, const std::vector<int32_t>& ids) {
  OutputParser parser(NanoTokenizer().vocabulary(),
                      *ChatTokens::Find(NanoTokenizer()),
                      InitialChannel(chat.thinking));
  Message message;
  for (const int32_t id : ids) {
    const ParsedText text = parser.Add(id);
    message.content += text.content;
    message.reasoning += text.reasoning;
  }
  message.calls = parser.tool_calls();
  return message;
}

TEST(GrammarConstraintTest, EndsEveryWalkInAnAnswerThatSatisfiesTheSchema) {
  const SchemaValidator validator(nlohmann::json::parse(kPerson));
  for (const Thinking thinking : {Thinking::kOff, Thinking::kLow}) {
    const ChatRequest chat = JsonChat(kPerson, thinking);
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const std::vector<int32_t> ids = DrawMessage(chat, seed);
      const Message message = Parse(chat, ids);
      const auto value = nlohmann::json::parse(message.content, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << message.content;
      EXPECT_TRUE(validator.Holds(value)) << message.content;
      EXPECT_TRUE(message.calls.empty());
      EXPECT_EQ(message.reasoning.empty(), thinking == Thinking::kOff);
    }
  }
}

TEST(GrammarConstraintTest, TakesATextHoweverItIsCutIntoTokens) {
  const std::string text = R"({ "name" : "Zoë \"Z\"",)"
                           "\n  "
                           R"("age": 34, "tags": ["new","old"]})";
  const ChatRequest chat = JsonChat(kPerson);
  const std::vector<int32_t> end = ControlIds(kEnd);
  EXPECT_TRUE(Takes(chat, Joined(*NanoTokenizer().Encode(text), end)));
  std::vector<int32_t> bytes;
  for (const char c : text) {
    bytes.push_back(*NanoTokenizer().vocabulary().FindRank({&c, 1}));
  }
  EXPECT_TRUE(Takes(chat, Joined(bytes, end)));
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      const size_t length =
          std::min<size_t>(1 + random() % 6, text.size() - at);
      const auto id = NanoTokenizer().vocabulary().FindRank(
          std::string_view(text).substr(at, length));
      if (!id) continue;
      ids.push_back(*id);
      at += length;
    }
    EXPECT_TRUE(Takes(chat, Joined(ids, end)));
  }
}

TEST(GrammarConstraintTest, AllowsExactlyTheTokensWhoseBytesGoOn) {
  const auto constraint = ConstraintOf(JsonChat(kPerson));
  const auto begin = *NanoTokenizer().Encode(R"({"name": "A)");
  for (const int32_t id : begin) {
    ASSERT_TRUE(Allows(*constraint, id));
    constraint->Accept(id);
  }
  const GrammarPtr grammar = GrammarOf(kPerson);
  const Vocabulary& vocabulary = NanoTokenizer().vocabulary();
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string text =
        R"({"name": "A)" + std::string(vocabulary.Bytes(id));
    const bool goes_on =
        id < vocabulary.base() && Read(grammar, text) != Reading::kNo;
    EXPECT_EQ(Allows(*constraint, id), goes_on) << vocabulary.Bytes(id);
  }
}

TEST(GrammarConstraintTest, EndsTheMessageWhenTheTextIsComplete) {
  const auto constraint = ConstraintOf(JsonChat("{\"const\":1}"));
  constraint->Accept(NanoTokenizer().Encode("1")->at(0));
  for (const int32_t id : ControlIds(kEnd)) {
    EXPECT_FALSE(constraint->is_complete());
    EXPECT_TRUE(Allows(*constraint, id));
    constraint->Accept(id);
  }
  EXPECT_TRUE(constraint->is_complete());
  EXPECT_TRUE(AllowedIds(*constraint).empty());
}

TEST(GrammarConstraintTest, LeavesReasoningFreeAndOpensTheResponse) {
  const ChatRequest chat = JsonChat("{\"const\":1}", Thinking::kMax);
  const std::string answer = std::string("<|open|>response<|sep|>1") + kEnd;
  EXPECT_TRUE(Takes(chat, ControlIds("hm } \"<|close|>think<|sep|>" + answer)));
  EXPECT_TRUE(Takes(chat, ControlIds("<|close|>think<|sep|>" + answer)));
  EXPECT_FALSE(Takes(chat, ControlIds("hm<|end_of_msg|>")));
  EXPECT_FALSE(Takes(chat, ControlIds("hm<|open|>response<|sep|>1")));
  EXPECT_FALSE(
      Takes(chat, ControlIds("<|close|>think<|sep|><|close|>message<|sep|>"
                             "<|end_of_msg|>")));
}

TEST(GrammarConstraintTest, LetsToolsBeCalledInsteadOfJson) {
  ChatRequest chat = JsonChat("{\"const\":1}");
  chat.tools_json = kTools;
  const std::string calls =
      "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"time\" "
      "index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
      "<|close|>message<|sep|><|end_of_msg|>";
  EXPECT_TRUE(Takes(chat, ControlIds(calls)));
  EXPECT_TRUE(Takes(chat, ControlIds(std::string("1") + kEnd)));
  EXPECT_FALSE(Takes(chat, ControlIds("2" + calls)));
  EXPECT_FALSE(Takes(chat, ControlIds(kEnd)));
  chat.tool_choice = ToolChoice::kNone;
  EXPECT_FALSE(Takes(chat, ControlIds(calls)));
}

TEST(GrammarConstraintTest, ForcesCallsThatFollowTheParameters) {
  const ChatRequest chat = ToolChat();
  int weather = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Message message = Parse(chat, DrawMessage(chat, seed));
    EXPECT_EQ(message.content, "");
    ASSERT_GE(message.calls.size(), 1);
    for (const ToolCall& call : message.calls) {
      const auto arguments =
          nlohmann::json::parse(call.arguments_json, nullptr, false);
      ASSERT_FALSE(arguments.is_discarded()) << call.arguments_json;
      if (call.name == "time") {
        EXPECT_EQ(call.arguments_json, "{}");
        continue;
      }
      ++weather;
      EXPECT_EQ(call.name, "weather");
      const nlohmann::json tools = nlohmann::json::parse(kTools);
      EXPECT_TRUE(
          SchemaValidator(tools[0]["function"]["parameters"]).Holds(arguments))
          << call.arguments_json;
    }
  }
  EXPECT_GT(weather, 10);
}

TEST(GrammarConstraintTest, CallsTheNamedToolOnce) {
  const std::string begin = "<|close|>response<|sep|><|open|>tools<|sep|>";
  const std::string end =
      "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>";
  const auto call = [](int index) {
    return fmt::format(
        "<|open|>call tool=\"time\" index=\"{}\"<|sep|><|close|>call<|sep|>",
        index);
  };
  const std::string one = begin + call(1) + end;
  const std::string two = begin + call(1) + call(2) + end;
  EXPECT_TRUE(Takes(ToolChat("time"), ControlIds(one)));
  EXPECT_FALSE(Takes(ToolChat("time"), ControlIds(two)));
  EXPECT_FALSE(Takes(ToolChat("weather"), ControlIds(one)));
  EXPECT_TRUE(Takes(ToolChat(), ControlIds(two)));
  EXPECT_FALSE(Takes(ToolChat(), ControlIds(begin + end)));
  ChatRequest chat = ToolChat();
  chat.parallel_tool_calls = false;
  EXPECT_TRUE(Takes(chat, ControlIds(one)));
  EXPECT_FALSE(Takes(chat, ControlIds(two)));
}

TEST(GrammarConstraintTest, HoldsOnlyStrictToolsThatAreNotForced) {
  ChatRequest chat = ToolChat();
  chat.tool_choice = ToolChoice::kAuto;
  std::string where;
  EXPECT_EQ(*MakeMessageGrammar(chat, kFields, where), nullptr);
  chat.tools_json.insert(chat.tools_json.find("\"name\""), "\"strict\":true,");
  const auto calls = [](std::string_view name, std::string_view days) {
    return ControlIds(fmt::format(
        "Well.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call "
        "tool=\"{}\" index=\"1\"<|sep|><|open|>argument key=\"city\" "
        "type=\"string\"<|sep|>Rome<|close|>argument<|sep|><|open|>argument "
        "key=\"days\" type=\"number\"<|sep|>{}<|close|>argument<|sep|>"
        "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
        "<|end_of_msg|>",
        name, days));
  };
  EXPECT_TRUE(Takes(chat, calls("weather", "9")));
  EXPECT_FALSE(Takes(chat, calls("weather", "10")));
  EXPECT_FALSE(Takes(chat, calls("whether", "9")));
  EXPECT_TRUE(Takes(chat, ControlIds(std::string("Just text.") + kEnd)));
  chat.tools_json = R"([{"function":{"name":"free","parameters":{}}},)"
                    R"({"function":{"name":"held","strict":true}}])";
  EXPECT_TRUE(Takes(chat, calls("free", "ten")));
  EXPECT_FALSE(Takes(chat, calls("held", "ten")));
}

TEST(GrammarConstraintTest, NamesTheMemberInError) {
  const auto where_of = [](const ChatRequest& chat) {
    std::string where;
    const auto grammar = MakeMessageGrammar(chat, kFields, where);
    EXPECT_TRUE(absl::IsInvalidArgument(grammar.status()));
    return where;
  };
  EXPECT_EQ(where_of(JsonChat("{\"items\":{\"not\":{}}}")), "schema.items.not");
  EXPECT_EQ(where_of(JsonChat("{\"a\":}")), "schema.a");
  EXPECT_EQ(where_of(JsonChat("false")), "schema");
  EXPECT_EQ(where_of(JsonChat("\"" + std::string(kMaxSchemaBytes, 'a') + "\"")),
            "schema");
  EXPECT_EQ(where_of(ToolChat("no")), "choice");
  ChatRequest chat = ToolChat();
  chat.tools_json = R"([{"function":{"name":"a","parameters":{"properties":)"
                    R"({"b":{"pattern":"("}}}}}])";
  EXPECT_EQ(where_of(chat),
            "tools[0].function.parameters.properties.b.pattern");
  chat.tools_json = R"([{"function":{}}])";
  EXPECT_EQ(where_of(chat), "tools[0]");
}

}  // namespace
}  // namespace deltafin
