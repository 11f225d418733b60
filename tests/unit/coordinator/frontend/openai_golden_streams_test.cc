// What clients get of what models write, however it is closed, quoted or cut:
// streamed it is, byte for byte, what it is whole, wherever it ends.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/coordinator/frontend/openai_service_fixture.h"

namespace deltafin {
namespace {

using ::testing::StartsWith;

// What one choice shows.
struct Shown {
  std::string reasoning;
  std::string content;
  std::vector<std::string> calls;  // name, then arguments
  std::string reason;

  bool operator==(const Shown&) const = default;
};

void PrintTo(const Shown& shown, std::ostream* out) {
  *out << Json({shown.reasoning, shown.content, shown.calls, shown.reason})
              .dump();
}

enum class Effort : uint8_t { kNone, kMax };

struct Golden {
  std::string name;
  Effort effort;
  std::string plain;  // first, as ordinary tokens whatever it spells
  std::string text;
  Shown shown;
};

std::string Call(const std::string& name, const std::string& arguments) {
  return "<|open|>call tool=\"" + name + "\" index=\"1\"<|sep|>" + arguments +
         "<|close|>call<|sep|>";
}

std::string Argument(const std::string& key, const std::string& type,
                     const std::string& value) {
  return "<|open|>argument key=\"" + key + "\" type=\"" + type + "\"<|sep|>" +
         value + "<|close|>argument<|sep|>";
}

constexpr char kSmile[] = "\xF0\x9F\x99\x82";
const std::string kTools = "<|close|>response<|sep|><|open|>tools<|sep|>";
const std::string kEnd = "<|close|>message<|sep|><|end_of_msg|>";

std::vector<Golden> ThoughtsAndAnswers() {
  const std::string spelled = "a<|close|>response<|sep|><|end_of_msg|>";
  return {
      {"Whole",
       Effort::kMax,
       "",
       "I think.<|close|>think<|sep|><|open|>response<|sep|>Hello, \xC3\xA9."
       "<|close|>response<|sep|>" +
           kEnd,
       {"I think.", "Hello, \xC3\xA9.", {}, "stop"}},
      {"MissingThinkEnd",
       Effort::kMax,
       "",
       "why<|open|>response<|sep|>so<|close|>response<|sep|>" + kEnd,
       {"why", "so", {}, "stop"}},
      {"MessageEndWithoutResponseEnd",
       Effort::kNone,
       "",
       "Hello, Hump." + kEnd,
       {"", "Hello, Hump.", {}, "stop"}},
      {"NothingIsClosed",
       Effort::kNone,
       "",
       "Hello, Hump.<|end_of_msg|>",
       {"", "Hello, Hump.", {}, "stop"}},
      {"ThoughtAlone",
       Effort::kMax,
       "",
       "for ever<|end_of_msg|>",
       {"for ever", "", {}, "stop"}},
      {"ControlSpelledInOrdinaryTokens",
       Effort::kNone,
       spelled,
       "b<|close|>response<|sep|>" + kEnd,
       {"", spelled + "b", {}, "stop"}},
  };
}

std::vector<Golden> Calls() {
  const std::string smiling =
      Argument("city", "string", std::string("Os\"lo") + kSmile) +
      Argument("days", "number", "2");
  return {
      {"Calls",
       Effort::kNone,
       "One moment.",
       kTools + Call("weather", smiling) + Call("time", "") +
           "<|close|>tools<|sep|>" + kEnd,
       {"",
        "One moment.",
        {"weather",
         std::string(R"({"city": "Os\"lo)") + kSmile + R"(", "days": 2})",
         "time", "{}"},
        "tool_calls"}},
      {"ACallOfOneObject",
       Effort::kNone,
       "",
       kTools +
           Call("raw",
                "<|open|>json type=\"object\"<|sep|>{\"x\": [1, {}]}"
                "<|close|>json<|sep|>") +
           "<|close|>tools<|sep|><|end_of_msg|>",
       {"", "", {"raw", R"({"x": [1, {}]})"}, "tool_calls"}},
      {"ACallLeftOpen",
       Effort::kNone,
       "",
       kTools + "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument "
                "key=\"k\" type=\"string\"<|sep|>v<|end_of_msg|>",
       {"", "", {"f", R"({"k": "v"})"}, "tool_calls"}},
  };
}

void AddCalls(const Json& calls, std::vector<std::string>& shown) {
  for (const Json& call : calls) {
    if (call["function"].contains("name")) {
      shown.push_back(call["function"]["name"]);
      shown.emplace_back();
    }
    shown.back() += call["function"]["arguments"];
  }
}

void AddMessage(const Json& message, Shown& shown) {
  shown.reasoning += message.value("reasoning_content", "");
  if (message.contains("content") && !message["content"].is_null()) {
    shown.content += message["content"];
  }
  if (message.contains("tool_calls")) {
    AddCalls(message["tool_calls"], shown.calls);
  }
}

void AddItem(const Json& item, Shown& shown) {
  if (item["type"] == "function_call") {
    shown.calls.push_back(item["name"]);
    shown.calls.push_back(item["arguments"]);
  } else if (item["type"] == "message") {
    shown.content += item["content"][0]["text"];
  } else {
    shown.reasoning += item["content"][0]["text"];
  }
}

Shown OfResponse(const Json& response) {
  Shown shown;
  for (const Json& item : response["output"]) AddItem(item, shown);
  shown.reason = response["status"];
  return shown;
}

class GoldenStreamTest : public OpenAiServiceTest,
                         public ::testing::WithParamInterface<Golden> {
 protected:
  static std::string EffortOf(const char* open, const char* close) {
    const char* effort = GetParam().effort == Effort::kNone ? "none" : "max";
    return fmt::format("{}\"{}\"{}", open, effort, close);
  }
  static std::string ChatBody() {
    return R"({"model":"nano","messages":[{"role":"user","content":"Hi"}])" +
           EffortOf(R"(,"reasoning_effort":)", "");
  }
  static std::string ResponseBody() {
    return R"({"model":"nano","input":"Hi")" +
           EffortOf(R"(,"reasoning":{"effort":)", "}");
  }
  void SetUp() override {
    std::vector<int32_t> ids = *NanoTokenizer().Encode(GetParam().plain);
    for (const int32_t id : ControlIds(GetParam().text)) ids.push_back(id);
    Answer(ChatBody(), std::move(ids));
  }

  Shown Chat(size_t tokens) {
    const Json answer =
        Post("/v1/chat/completions",
             ChatBody() + fmt::format(R"(,"max_tokens":{}}})", tokens));
    Shown shown;
    AddMessage(answer["choices"][0]["message"], shown);
    shown.reason = answer["choices"][0]["finish_reason"];
    return shown;
  }
  std::vector<Json> Stream(const std::string& path, const std::string& body) {
    const ReplyPtr reply = Begin("POST", path, body + R"(,"stream":true})");
    reply->AwaitEnd();
    std::vector<Json> events;
    for (const std::string& data : Events(reply->body())) {
      if (data != "[DONE]") events.push_back(Json::parse(data));
    }
    return events;
  }
  Shown StreamedChat(size_t tokens) {
    Shown shown;
    for (const Json& chunk :
         Stream("/v1/chat/completions",
                ChatBody() + fmt::format(R"(,"max_tokens":{})", tokens))) {
      const Json& choice = chunk["choices"][0];
      AddMessage(choice["delta"], shown);
      if (!choice["finish_reason"].is_null()) {
        shown.reason = choice["finish_reason"];
      }
    }
    return shown;
  }
  Shown Response(size_t tokens) {
    return OfResponse(Post(
        "/v1/responses",
        ResponseBody() + fmt::format(R"(,"max_output_tokens":{}}})", tokens)));
  }
  // As the deltas tell it; as the last event tells it must be the same.
  Shown StreamedResponse(size_t tokens) {
    const std::vector<Json> events = Stream(
        "/v1/responses",
        ResponseBody() + fmt::format(R"(,"max_output_tokens":{})", tokens));
    Shown shown;
    for (const Json& event : events) {
      const std::string type = event["type"];
      if (type == "response.reasoning_text.delta") {
        shown.reasoning += event["delta"];
      } else if (type == "response.output_text.delta") {
        shown.content += event["delta"];
      } else if (type == "response.function_call_arguments.delta") {
        shown.calls.back() += event["delta"];
      } else if (type == "response.output_item.added" &&
                 event["item"]["type"] == "function_call") {
        shown.calls.push_back(event["item"]["name"]);
        shown.calls.emplace_back();
      }
    }
    const Json& last = events.back();
    shown.reason = last["response"]["status"];
    EXPECT_EQ(OfResponse(last["response"]), shown);
    return shown;
  }
};

TEST_P(GoldenStreamTest, ChatsStreamWhatTheyAreWhereverTheyEnd) {
  EXPECT_EQ(Chat(script_.size() + 10), GetParam().shown);
  for (size_t tokens = 1; tokens <= script_.size(); ++tokens) {
    SCOPED_TRACE(tokens);
    const Shown whole = Chat(tokens);
    EXPECT_EQ(StreamedChat(tokens), whole);
    EXPECT_THAT(
        GetParam().shown.reasoning,
        StartsWith(whole.reasoning.substr(0, whole.reasoning.find("\uFFFD"))));
    EXPECT_THAT(
        GetParam().shown.content,
        StartsWith(whole.content.substr(0, whole.content.find("\uFFFD"))));
    const bool is_cut = tokens < script_.size();
    EXPECT_EQ(whole.reason, is_cut ? "length" : GetParam().shown.reason);
  }
}

TEST_P(GoldenStreamTest, ResponsesStreamWhatTheyAreWhereverTheyEnd) {
  Shown expected = GetParam().shown;
  expected.reason = "completed";
  EXPECT_EQ(Response(script_.size() + 10), expected);
  for (size_t tokens = 1; tokens <= script_.size(); ++tokens) {
    SCOPED_TRACE(tokens);
    const Shown whole = Response(tokens);
    EXPECT_EQ(StreamedResponse(tokens), whole);
    EXPECT_EQ(whole.reason,
              tokens < script_.size() ? "incomplete" : "completed");
  }
}

std::string NameOf(const ::testing::TestParamInfo<Golden>& golden) {
  return golden.param.name;
}

INSTANTIATE_TEST_SUITE_P(Texts, GoldenStreamTest,
                         ::testing::ValuesIn(ThoughtsAndAnswers()), NameOf);
INSTANTIATE_TEST_SUITE_P(Tools, GoldenStreamTest, ::testing::ValuesIn(Calls()),
                         NameOf);

}  // namespace
}  // namespace deltafin
