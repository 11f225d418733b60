#include "coordinator/frontend/openai_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/coordinator/frontend/openai_request_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

constexpr char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"w","parameters":)"
    R"({"type":"object","properties":{"c":{"type":"string"}}}}},)"
    R"({"type":"function","function":{"name":"t"}}])";

absl::StatusOr<OpenAiRequest> Respond(const std::string& more) {
  return ParseResponseRequest(R"({"model":"nano","input":"Hi")" + more + "}",
                              NanoTokenizer(), NanoModel(3000));
}

absl::StatusOr<OpenAiRequest> LongChat(const std::string& more) {
  return ParseChatCompletion(
      R"({"model":"nano","messages":[{"role":"user","content":"Hi"}],)" + more +
          "}",
      NanoTokenizer(), NanoModel(3000));
}

TEST(OpenAiFormatTest, ReadsTheFormatAndShowsItToTheModel) {
  const auto chat = LongChat(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
      R"("description":"d","strict":true,"schema":{"type":"null"}}})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_NE(chat->grammar, nullptr);
  EXPECT_EQ(chat->chat.response_schema_json, R"({"type": "null"})");
  EXPECT_THAT(*NanoTokenizer().Decode(chat->prompts[0]),
              HasSubstr("`response_format=json_schema`"));
  const auto object = LongChat(R"("response_format":{"type":"json_object"})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_NE(object->grammar, nullptr);
  const auto text = LongChat(R"("response_format":{"type":"text"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->grammar, nullptr);
}

TEST(OpenAiFormatTest, ReadsForcedChoices) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("required")", ""},
      {R"({"type":"function","function":{"name":"w"}})", "w"}};
  for (const auto& [choice, name] : cases) {
    const auto chat =
        LongChat(std::string(kTools) + R"(,"tool_choice":)" + choice);
    ASSERT_TRUE(chat.ok()) << chat.status();
    EXPECT_EQ(chat->chat.tool_choice, ToolChoice::kRequired);
    EXPECT_EQ(chat->chat.tool_name, name);
    EXPECT_NE(chat->grammar, nullptr);
    EXPECT_THAT(*NanoTokenizer().Decode(chat->prompts[0]),
                HasSubstr("`tool_choice=required`"));
  }
  const auto one =
      LongChat(std::string(kTools) + R"(,"parallel_tool_calls":false)");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_NE(one->grammar, nullptr);
  const auto free = LongChat(std::string(kTools) + R"(,"tool_choice":"auto")");
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_EQ(free->grammar, nullptr);
}

TEST(OpenAiFormatTest, ResponsesSayWhatTheyAreHeldTo) {
  const auto schema =
      Respond(R"(,"text":{"format":{"type":"json_schema","name":"n","schema":)"
              R"({"type":"null"}}})");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_NE(schema->grammar, nullptr);
  EXPECT_EQ(FormatJson(*schema),
            R"({"type":"json_schema","name":"n","description":null,)"
            R"("schema":{"type": "null"},"strict":true})");
  EXPECT_EQ(ToolChoiceJson(*schema), "\"auto\"");
  const auto choice = Respond(R"(,"tools":[{"type":"function","name":"w"}],)"
                              R"("tool_choice":{"type":"function","name":"w"},)"
                              R"("text":{"format":{"type":"json_object"}})");
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(FormatJson(*choice), R"({"type":"json_object"})");
  EXPECT_EQ(ToolChoiceJson(*choice), R"({"type":"function","name":"w"})");
}

TEST(OpenAiFormatTest, NamesTheMemberInError) {
  const auto format = [](const std::string& schema) {
    return R"("response_format":{"type":"json_schema","json_schema":)" +
           schema + "}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"json_object","x":1})",
       "response_format.x"},
      {R"("response_format":{"type":"json_schema"})",
       "response_format.json_schema"},
      {format("{}"), "response_format.json_schema.name"},
      {format(R"({"name":"a b","schema":{}})"),
       "response_format.json_schema.name"},
      {format(R"({"name":"a"})"), "response_format.json_schema.schema"},
      {format(R"({"name":"a","schema":true})"),
       "response_format.json_schema.schema"},
      {format(R"({"name":"a","schema":{},"strict":"yes"})"),
       "response_format.json_schema.strict"},
      {format(R"({"name":"a","schema":{},"y":1})"),
       "response_format.json_schema.y"},
      {format(R"({"name":"a","schema":{"properties":{"a":{"pattern":"("}}}})"),
       "response_format.json_schema.schema.properties.a.pattern"},
      {format(R"({"name":"a","schema":{"$ref":"#"}})"),
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object"},"ignore_eos":true)",
       "ignore_eos"},
      {std::string(kTools) + R"(,"tool_choice":"any")", "tool_choice"},
      {std::string(kTools) + R"(,"tool_choice":{"type":"custom"})",
       "tool_choice.type"},
      {std::string(kTools) + R"(,"tool_choice":{"type":"function"})",
       "tool_choice.function"},
      {std::string(kTools) +
           R"(,"tool_choice":{"type":"function","function":{"name":"x"}})",
       "tool_choice"},
      {R"("tools":[{"type":"function","function":{"name":"w","parameters":)"
       R"({"properties":{"c":{"not":{}}}}}}],"tool_choice":"required")",
       "tools[0].function.parameters.properties.c.not"},
      {R"("tool_choice":"required")", "tool_choice"},
  };
  for (const auto& [more, param] : cases) {
    const auto chat = LongChat(more);
    EXPECT_EQ(ParamOf(chat.status()), param) << more << chat.status();
  }
  EXPECT_EQ(ParamOf(Respond(R"(,"text":{"format":{"type":"json_schema",)"
                            R"("name":"n","schema":{"not":{}}}})")
                        .status()),
            "text.format.schema.not");
  EXPECT_EQ(ParamOf(Respond(R"(,"tools":[{"type":"function","name":"w",)"
                            R"("parameters":{"properties":{"a":{"not":{}}}}}],)"
                            R"("tool_choice":"required")")
                        .status()),
            "tools[0].parameters.properties.a.not");
}

}  // namespace
}  // namespace deltafin
