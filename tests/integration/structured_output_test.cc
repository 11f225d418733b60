// k3-nano is held to schemas and to calls through the gRPC door: the answers
// satisfy them, and are the same alone and in company.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/inference_client.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = R"({"type": "object", "properties": {
    "title": {"type": "string", "minLength": 20, "maxLength": 60},
    "year": {"type": "integer", "minimum": 1800, "maximum": 1899},
    "day": {"type": "string", "pattern": "^(Mon|Tue|Wednes)day$"},
    "scores": {"type": "array", "items": {"type": "number", "minimum": 0,
               "maximum": 1}, "minItems": 2, "maxItems": 4},
    "rest": {"type": "array", "items": {"enum": ["a", null, {"b": [1]}]},
             "minItems": 8, "maxItems": 12}},
  "required": ["title", "year", "day", "scores", "rest"],
  "additionalProperties": false})";

v1::GenerateRequest Ask(const std::string& thinking, uint64_t seed) {
  v1::GenerateRequest request;
  v1::Chat* chat = request.mutable_chat();
  chat->set_thinking(thinking);
  v1::ChatMessage* message = chat->add_messages();
  message->set_role("user");
  message->set_content("Which book did you read?");
  request.set_max_new_tokens(700);
  request.mutable_sampling()->set_temperature(seed == 0 ? 0 : 1);
  request.mutable_sampling()->set_seed(seed);
  return request;
}

v1::GenerateRequest AskForJson(uint64_t seed) {
  v1::GenerateRequest request = Ask("off", seed);
  request.mutable_chat()->set_response_format("json_schema");
  request.mutable_chat()->set_response_schema_json(kSchema);
  return request;
}

size_t Characters(const std::string& utf8) {
  size_t count = 0;
  for (const char c : utf8) count += (c & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

void ExpectSatisfied(const Generated& answer) {
  EXPECT_EQ(answer.last.finish_reason(), "stop");
  const Json value = Json::parse(answer.text, nullptr, false);
  ASSERT_TRUE(value.is_object()) << answer.text;
  ASSERT_EQ(value.size(), 5) << answer.text;
  const size_t length = Characters(value["title"]);
  EXPECT_TRUE(length >= 20 && length <= 60) << length;
  EXPECT_TRUE(value["year"].is_number_integer());
  EXPECT_EQ(value["year"].get<int>() / 100, 18);
  const std::string day = value["day"];
  EXPECT_TRUE(day == "Monday" || day == "Tuesday" || day == "Wednesday") << day;
  EXPECT_TRUE(value["scores"].size() >= 2 && value["scores"].size() <= 4);
  for (const double score : value["scores"]) {
    EXPECT_TRUE(score >= 0 && score <= 1) << score;
  }
  EXPECT_TRUE(value["rest"].size() >= 8 && value["rest"].size() <= 12);
  const Json object = Json::parse(R"({"b": [1]})");
  for (const Json& item : value["rest"]) {
    EXPECT_TRUE(item == "a" || item.is_null() || item == object) << item;
  }
}

TEST(StructuredOutputTest, AnswersSatisfyTheSchemaAloneAndInCompany) {
  ServeProcess server({"--threads", "2"});
  constexpr uint64_t kSeeds = 4;  // 0: greedy
  std::vector<std::vector<uint32_t>> alone;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto answer = Generate(server, AskForJson(seed));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ExpectSatisfied(*answer);
    alone.push_back(answer->ids);
  }
  std::vector<std::vector<uint32_t>> together(kSeeds);
  std::vector<std::thread> clients;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    clients.emplace_back([&server, &together, seed] {
      const auto answer = Generate(server, AskForJson(seed));
      EXPECT_TRUE(answer.ok()) << answer.status();
      if (answer.ok()) together[seed] = answer->ids;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

TEST(StructuredOutputTest, GuessesChangeNoToken) {
  ServeProcess server({"--threads", "2"});
  v1::GenerateRequest request = AskForJson(0);
  std::vector<std::vector<uint32_t>> ids;
  for (const char* mode : {"off", "force"}) {
    request.set_speculate(mode);
    const auto answer = Generate(server, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ids.push_back(answer->ids);
  }
  EXPECT_EQ(ids[0], ids[1]);
}

TEST(StructuredOutputTest, TheNamedToolIsCalledByItsParameters) {
  ServeProcess server({"--threads", "2"});
  v1::GenerateRequest request = Ask("off", 0);
  request.mutable_chat()->set_tools_json(
      R"([{"type": "function", "function": {"name": "note", "parameters":
          {"type": "object", "properties": {
            "text": {"type": "string", "minLength": 5, "maxLength": 30},
            "stars": {"type": "integer", "minimum": 1, "maximum": 5}},
           "required": ["text", "stars"]}}},
         {"type": "function", "function": {"name": "other"}}])");
  request.mutable_chat()->set_tool_choice("required");
  request.mutable_chat()->set_tool_name("note");
  const auto answer = Generate(server, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->text, "");
  ASSERT_EQ(answer->last.tool_calls_size(), 1);
  EXPECT_EQ(answer->last.tool_calls(0).name(), "note");
  const Json value = Json::parse(answer->last.tool_calls(0).arguments_json());
  ASSERT_EQ(value.size(), 2);
  const size_t length = Characters(value["text"]);
  EXPECT_TRUE(length >= 5 && length <= 30) << length;
  EXPECT_TRUE(value["stars"] >= 1 && value["stars"] <= 5);
}

TEST(StructuredOutputTest, AnUnknownKeywordIsRefusedByItsPath) {
  ServeProcess server({"--threads", "2"});
  v1::GenerateRequest request = AskForJson(0);
  request.mutable_chat()->set_response_schema_json(
      R"({"properties": {"a": {"not": {}}}})");
  const auto answer = Generate(server, request);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  EXPECT_NE(answer.status().message().find(
                "chat.response_schema_json.properties.a.not"),
            absl::string_view::npos)
      << answer.status();
}

}  // namespace
}  // namespace deltafin::testing
