// Every member at every depth of full requests, replaced by every value that
// somebody may send.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/frontend/openai_text.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/openai_request_fixture.h"

namespace deltafin {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPlace = "\"@@\"";

// As they stand in a body; no JSON some of them.
constexpr const char* kAbuses[] = {
    "-1",
    "0",
    "2147483648",
    "9223372036854775808",
    "1e308",
    "1e999",
    "1.5",
    "NaN",
    "null",
    "\"\"",
    "\"abuse\"",
    "\"\xff\"",
    "true",
    "[[1e308]]",
    "[]",
    "{}",
    "{\"abuse\":1}",
    "{\"a\":1,\"a\":2}",
};

const std::string kTool =
    R"({"name":"weather","description":"Tells","strict":true,"parameters":)"
    R"({"type":"object","properties":{"city":{"type":"string"}},)"
    R"("required":["city"]}})";
const std::string kSchema =
    R"({"name":"s","description":"d","strict":true,"schema":{"type":"object",)"
    R"("properties":{"a":{"type":"integer","minimum":0}},"required":["a"],)"
    R"("additionalProperties":false}})";

Json FullChat() {
  return Json::parse(
      R"({"model":"nano","messages":[{"role":"system","content":"x"},)"
      R"({"role":"user","name":"me","content":[{"type":"text","text":"Hi"}]},)"
      R"({"role":"assistant","content":"y","reasoning_content":"z",)"
      R"("tool_calls":[{"id":"a","type":"function","function":)"
      R"({"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":"rain"}],)"
      R"("tools":[{"type":"function","function":)" +
      kTool +
      R"(}],"tool_choice":{"type":"function","function":{"name":"weather"}},)"
      R"("logit_bias":{"5":1},"stop":["a","b"],"stream":true,)"
      R"("stream_options":{"include_usage":true,"empty_delta":true,)"
      R"("resumable":5}})");
}

Json FullFormat() {
  return Json::parse(
      R"({"model":"nano","messages":[{"role":"user","content":"Hi"}],)"
      R"("response_format":{"type":"json_schema","json_schema":)" +
      kSchema + "}}");
}

Json FullResponse() {
  Json format = Json::parse(kSchema);
  format["type"] = "json_schema";
  Json tool = Json::parse(kTool);
  tool["type"] = "function";
  Json request = Json::parse(
      R"({"model":"nano","instructions":"x","reasoning":{"effort":"low"},)"
      R"("input":[{"type":"message","role":"user","content":)"
      R"([{"type":"input_text","text":"Hi"}]},)"
      R"({"type":"function_call","call_id":"a","name":"weather",)"
      R"("arguments":"{}"},{"type":"function_call_output","call_id":"a",)"
      R"("output":"rain"}]})");
  request["text"]["format"] = format;
  request["tools"] = Json::array({tool});
  return request;
}

Json FullCompletion() {
  return Json::parse(R"({"model":"nano","prompt":["a",[1,2]],"stop":["a"],)"
                     R"("logit_bias":{"5":1},"stream":true,"stream_options":)"
                     R"({"include_usage":true}})");
}

using Parse = std::function<absl::Status(const std::string& body)>;

template <typename F>
Parse StatusOf(F parse) {
  return [parse](const std::string& body) {
    return parse(body, NanoTokenizer(), NanoModel(3000)).status();
  };
}

// "messages[0].content" of "/messages/0/content".
std::string PathOf(const Json::json_pointer& pointer) {
  std::string path;
  for (Json::json_pointer at = pointer; !at.empty(); at.pop_back()) {
    const std::string& name = at.back();
    const bool is_index = name.find_first_not_of("0123456789") == name.npos &&
                          at.to_string().find("logit_bias") == name.npos;
    path = (is_index ? "[" + name + "]" : "." + name) + path;
  }
  return path.substr(1);
}

std::vector<Json::json_pointer> AllMembers(const Json& value) {
  std::vector<Json::json_pointer> all;
  const Json flat = value.flatten();
  for (const auto& [leaf, unused] : flat.items()) {
    for (Json::json_pointer at(leaf); !at.empty(); at.pop_back()) {
      if (std::find(all.begin(), all.end(), at) == all.end()) all.push_back(at);
    }
  }
  return all;
}

// Whether a value could be one of this member, `full` being one. Parameters of
// tools and schemas are any JSON to us.
bool MayBeAccepted(const std::string& path, const Json& full,
                   const std::string& abuse) {
  if (abuse == "{\"a\":1,\"a\":2}") return false;
  const Json value = Json::parse(abuse, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return false;
  if (path.find("parameters") != path.npos ||
      path.find("schema") != path.npos) {
    return true;
  }
  if (value.is_null()) return true;
  if (full.is_number() || value.is_number()) {
    return full.is_number() && value.is_number();
  }
  // Of several types are only texts and lists of them.
  return full.type() == value.type() ||
         (full.is_array() && value.is_string()) ||
         (full.is_string() && value == Json::array());
}

// Whether an error at `param` tells of the member at `path`: it is that member,
// in it, around it, or contradicts it within the same field.
bool TellsOf(const std::string& path, const std::string& param) {
  const auto field_of = [](const std::string& whole) {
    return whole.substr(0, whole.find_first_of(".["));
  };
  if (param.empty()) return false;
  const std::string field = field_of(path);
  return field_of(param) == field ||
         (field == "tools" && param == "tool_choice") ||
         (field == "stream" && param == "stream_options") ||
         (field == "messages" && param == "prompt");
}

void AbuseEveryMember(const Parse& parse, const Json& full) {
  ASSERT_TRUE(parse(full.dump()).ok()) << parse(full.dump());
  for (const Json::json_pointer& member : AllMembers(full)) {
    const std::string path = PathOf(member);
    Json body = full;
    body[member] = "@@";
    const std::string text = body.dump();
    const size_t place = text.find(kPlace);
    int refused = 0;
    for (const char* const abuse : kAbuses) {
      std::string abused = text;
      abused.replace(place, kPlace.size(), abuse);
      SCOPED_TRACE(path + " = " + abuse);
      const absl::Status status = parse(abused);
      if (status.ok()) {
        EXPECT_TRUE(MayBeAccepted(path, full[member], abuse));
        continue;
      }
      ++refused;
      EXPECT_TRUE(TellsOf(path, ParamOf(status))) << status;
      const int http_status = ToOpenAiError(status).http_status;
      EXPECT_TRUE(http_status == 400 || http_status == 404) << status;
    }
    EXPECT_GE(refused, 4) << path;
  }
}

// Nothing is not a choice.
TEST(OpenAiMemberAbuseTest, EmptyNamesAreRefused) {
  Json chat = FullChat();
  chat["tool_choice"]["function"]["name"] = "";
  EXPECT_EQ(ParamOf(StatusOf(ParseChatCompletion)(chat.dump())),
            "tool_choice.function.name");
  Json response = FullResponse();
  response["tool_choice"] = Json::parse(R"({"type":"function","name":""})");
  EXPECT_EQ(ParamOf(StatusOf(ParseResponseRequest)(response.dump())),
            "tool_choice.name");
  response = FullResponse();
  response["reasoning"]["effort"] = "";
  EXPECT_EQ(ParamOf(StatusOf(ParseResponseRequest)(response.dump())),
            "reasoning.effort");
}

TEST(OpenAiMemberAbuseTest, OfChats) {
  AbuseEveryMember(StatusOf(ParseChatCompletion), FullChat());
  AbuseEveryMember(StatusOf(ParseChatCompletion), FullFormat());
}

TEST(OpenAiMemberAbuseTest, OfResponses) {
  AbuseEveryMember(StatusOf(ParseResponseRequest), FullResponse());
}

TEST(OpenAiMemberAbuseTest, OfCompletions) {
  AbuseEveryMember(StatusOf(ParseCompletion), FullCompletion());
}

TEST(OpenAiMemberAbuseTest, OfTextAndTokens) {
  AbuseEveryMember(StatusOf(TokenizeJson),
                   Json::parse(R"({"model":"nano","prompt":"a",)"
                               R"("add_special_tokens":true})"));
  Json chat = FullChat();
  for (const char* name :
       {"tool_choice", "logit_bias", "stop", "stream", "stream_options"}) {
    chat.erase(name);
  }
  chat["add_generation_prompt"] = true;
  AbuseEveryMember(StatusOf(TokenizeJson), chat);
  AbuseEveryMember(StatusOf(DetokenizeJson),
                   Json::parse(R"({"model":"nano","tokens":[1,2]})"));
}

}  // namespace
}  // namespace deltafin
