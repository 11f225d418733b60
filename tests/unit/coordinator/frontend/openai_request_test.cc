#include "coordinator/frontend/openai_request.h"

#include <string>
#include <vector>

#include "coordinator/frontend/chat_template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/openai_request_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(OpenAiRequestTest, DefaultsAreGreedyAndUnboundedForChats) {
  const auto request = Chat("");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generation.sampling.temperature, 0);
  EXPECT_EQ(request->generation.sampling.seed, 0u);
  EXPECT_EQ(request->generation.max_new_tokens, 2147483647);
  EXPECT_FALSE(request->stream);
  EXPECT_EQ(request->num_choices, 1);
  ChatRequest chat;
  chat.messages.push_back({});
  chat.messages[0].content = {"Hi"};
  ASSERT_EQ(request->prompts.size(), 1u);
  EXPECT_EQ(request->prompts[0], *EncodeChat(NanoTokenizer(), chat));
}

TEST(OpenAiRequestTest, ReadsEverySamplingField) {
  const auto request = Chat(
      R"(,"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"seed":-2,)"
      R"("presence_penalty":-1.5,"frequency_penalty":1.5,)"
      R"("repetition_penalty":1.25,"logit_bias":{"5":-100,"9":2.5},)"
      R"("stop":["a","b"],"max_completion_tokens":9,"n":3,"timeout":2.5,)"
      R"("ignore_eos":true,"logprobs":true,"top_logprobs":4)");
  ASSERT_TRUE(request.ok()) << request.status();
  const SamplingOptions& sampling = request->generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.seed, 0xFFFFFFFFFFFFFFFEu);
  EXPECT_EQ(sampling.presence_penalty, -1.5f);
  EXPECT_EQ(sampling.frequency_penalty, 1.5f);
  EXPECT_EQ(sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(sampling.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{5, -100}, {9, 2.5f}}));
  EXPECT_EQ(request->text.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->generation.max_new_tokens, 9);
  EXPECT_EQ(request->num_choices, 3);
  EXPECT_EQ(request->timeout, absl::Milliseconds(2500));
  EXPECT_TRUE(request->generation.ignore_eos);
  EXPECT_TRUE(request->generation.want_logprobs);
  EXPECT_EQ(request->generation.top_logprobs, 4);
}

TEST(OpenAiRequestTest, RefusesWhatContradictsOrHasNoEffect) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"max_tokens":1,"max_completion_tokens":2)", "max_tokens"},
      {R"(,"top_logprobs":2)", "top_logprobs"},
      {R"(,"stream_options":{"include_usage":true})", "stream_options"},
      {R"(,"tool_choice":"auto")", "tool_choice"},
      {R"(,"response_format":{"type":"grammar"})", "response_format.type"},
      {R"(,"reasoning_effort":"medium")", "reasoning_effort"},
      {R"(,"store":true)", "store"},
      {R"(,"logit_bias":{"4096":1})", "logit_bias"},
      {R"(,"logit_bias":{"x":1})", "logit_bias.x"},
      {R"(,"logit_bias":{"1":101})", "logit_bias"},
      {R"(,"top_p":0)", "top_p"},
      {R"(,"temperature":0.00001)", "temperature"},
      {R"(,"stop":["a","b","c","d","e"])", "stop"},
      {R"(,"stop":[""])", "stop"},
      {R"(,"stop":["a",1])", "stop[1]"},
      {R"(,"stream":true,"stream_options":{"x":1})", "stream_options.x"},
      {R"(,"stream":true,"stream_options":{"resumable":601})",
       "stream_options.resumable"},
  };
  for (const auto& [more, param] : cases) {
    EXPECT_EQ(ParamOf(Chat(more).status()), param) << more;
  }
}

TEST(OpenAiRequestTest, RefusesAnotherModelAndAMissingOne) {
  const auto request = ParseChatCompletion(
      R"({"model":"gpt","messages":[{"role":"user","content":"Hi"}]})",
      NanoTokenizer(), NanoModel());
  EXPECT_EQ(ToOpenAiError(request.status()).code, "model_not_found");
  EXPECT_EQ(ToOpenAiError(request.status()).http_status, 404);
  EXPECT_EQ(ParamOf(ParseCompletion(R"({"prompt":"Hi"})", NanoTokenizer(),
                                    NanoModel())
                        .status()),
            "model");
  EXPECT_EQ(ParamOf(ParseChatCompletion(R"({"model":"nano"})", NanoTokenizer(),
                                        NanoModel())
                        .status()),
            "messages");
}

// A whole round trip of tools as the template wants it.
constexpr char kToolChat[] = R"({"model":"nano","messages":[
  {"role":"developer","content":[{"type":"text","text":"Be brief."}]},
  {"role":"user","content":"Weather?","name":"ann"},
  {"role":"assistant","content":null,"refusal":null,"annotations":[],
   "reasoning_content":"hm","tool_calls":[
    {"id":"c1","type":"function","function":{"name":"w","arguments":"{\"c\":1}"}},
    {"id":"c2","type":"function","function":{"name":"t","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"c2","content":"noon"},
  {"role":"tool","tool_call_id":"c1","content":"sun"}],
  "tools":[{"type":"function","function":{"name":"w","description":"d",
    "parameters":{"type":"object","properties":{"c":{"minimum":1.50}}}}}],
  "tool_choice":"none","parallel_tool_calls":true,"reasoning_effort":"low"})";

TEST(OpenAiRequestTest, ReadsToolsCallsAndResults) {
  const auto request =
      ParseChatCompletion(kToolChat, NanoTokenizer(), NanoModel());
  ASSERT_FALSE(request.ok());  // 300 tokens are too few
  EXPECT_EQ(ToOpenAiError(request.status()).code, "context_length_exceeded");
  const OpenAiModel model = NanoModel(3000);
  const auto chat = ParseChatCompletion(kToolChat, NanoTokenizer(), model);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::string text = *NanoTokenizer().Decode(chat->prompts[0]);
  EXPECT_THAT(text, HasSubstr("\"minimum\":1.5"));
  EXPECT_THAT(text, HasSubstr("<|open|>think<|sep|>hm<|close|>think<|sep|>"));
  EXPECT_THAT(text,
              HasSubstr("<|open|>argument key=\"c\" type=\"number\"<|sep|>"
                        "1<|close|>argument<|sep|>"));
  EXPECT_THAT(text, HasSubstr("tool=\"w\" index=\"1\"<|sep|>sun"));
  EXPECT_THAT(text, HasSubstr("tool=\"t\" index=\"2\"<|sep|>noon"));
  EXPECT_THAT(text, HasSubstr("thinking_effort=low"));
  EXPECT_THAT(text, HasSubstr("role=\"user\" name=\"ann\""));
  EXPECT_EQ(chat->chat.tool_choice, ToolChoice::kNone);
}

TEST(OpenAiRequestTest, MessagesAreCheckedToTheLastMember) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "messages"},
      {R"([1])", "messages[0]"},
      {R"([{}])", "messages[0].role"},
      {R"([{"role":"bot","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":1}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":"x","mood":1}])", "messages[0].mood"},
      {R"([{"role":"user","content":"x","tool_calls":[]}])",
       "messages[0].tool_calls"},
      {R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id"},
      {R"([{"role":"assistant","refusal":"no"}])", "messages[0].refusal"},
      {R"([{"role":"assistant","tool_calls":[{"type":"function"}]}])",
       "messages[0].tool_calls[0].id"},
      {R"([{"role":"tool","content":"x","tool_call_id":"a"}])",
       "messages[0].tool_call_id"},
  };
  for (const auto& [messages, param] : cases) {
    const std::string body =
        R"({"model":"nano","messages":)" + std::string(messages) + "}";
    EXPECT_EQ(
        ParamOf(
            ParseChatCompletion(body, NanoTokenizer(), NanoModel()).status()),
        param)
        << messages;
  }
}

// Whose result it is must be clear.
TEST(OpenAiRequestTest, ResultsOfToolsAnswerTheCallsBeforeThem) {
  const std::string call =
      R"({"type":"function","function":{"name":"w","arguments":"{}"},"id":)";
  const std::string two = R"({"role":"user","content":"x"},
      {"role":"assistant","tool_calls":[)" +
                          call + R"("a"},)" + call + R"("b"}]})";
  const std::string result = R"(,{"role":"tool","content":"x")";
  const std::pair<std::string, const char*> cases[] = {
      {two + result + R"(,"tool_call_id":"b"})" + result +
           R"(,"tool_call_id":"a"})",
       ""},
      {two + result + R"(,"tool_call_id":"c"})", "messages[2].tool_call_id"},
      {two + result + R"(,"tool_call_id":"a"})" + result +
           R"(,"tool_call_id":"a"})",
       "messages[3].tool_call_id"},
      {two + R"(,{"role":"assistant","content":"y"})" + result +
           R"(,"tool_call_id":"a"})",
       "messages[3].tool_call_id"},
      {two + R"(,{"role":"assistant","tool_calls":[)" + call + R"("c"},)" +
           call + R"("c"}]})",
       "messages[2].tool_calls[1].id"},
      {R"({"role":"user","content":"x"})" + result +
           R"(,"name":"w","tool_call_id":"gone"})",
       ""},
  };
  for (const auto& [messages, param] : cases) {
    const std::string body =
        R"({"model":"nano","messages":[)" + messages + "]}";
    EXPECT_EQ(
        ParamOf(ParseChatCompletion(body, NanoTokenizer(), NanoModel(3000))
                    .status()),
        param)
        << messages;
  }
}

TEST(OpenAiRequestTest, ItemsOfResponsesAreCheckedToTheLastMember) {
  const std::string ask = R"({"role":"user","content":"x"},)";
  const std::string call =
      R"({"type":"function_call","name":"w","arguments":"{}","call_id":"a"})";
  const std::string result =
      R"({"type":"function_call_output","output":"x","call_id":)";
  const std::pair<std::string, const char*> cases[] = {
      {ask + call + "," + result + R"("a"})", ""},
      {ask + call + "," + result + R"("b"})", "input[2].call_id"},
      {ask + result + R"("a"})", "input[1].call_id"},
      {ask + call + "," + call, "input[2].call_id"},
      {ask + call + "," + result + R"("a"},)" + result + R"("a"})",
       "input[3].call_id"},
      {ask + call + "," + result + R"("a"},)" + call + "," + result + R"("a"})",
       ""},
      {ask + R"({"type":"function_call","name":"w","arguments":"{}"})",
       "input[1].call_id"},
      {ask + R"({"type":"function_call","call_id":"a","arguments":"{}"})",
       "input[1].name"},
      {ask + R"({"type":"function_call","call_id":"a","name":"w"})",
       "input[1].arguments"},
      {ask +
           R"({"type":"function_call","call_id":"a","name":"w","arguments":{}})",
       "input[1].arguments"},
      {ask + R"({"type":"function_call","call_id":"a","name":"w",)"
             R"("arguments":"[1]"})",
       "input"},
      {ask + call + R"(,{"type":"function_call_output","call_id":"a"})",
       "input[2].output"},
      {ask + call +
           R"(,{"type":"function_call_output","call_id":"a",)"
           R"("output":[{"type":"input_image"}]})",
       "input[2].output[0].type"},
      {ask + R"({"type":"web_search_call"})", "input[1].type"},
  };
  for (const auto& [items, param] : cases) {
    const std::string body = R"({"model":"nano","input":[)" + items + "]}";
    EXPECT_EQ(
        ParamOf(ParseResponseRequest(body, NanoTokenizer(), NanoModel(3000))
                    .status()),
        param)
        << items;
  }
}

TEST(OpenAiRequestTest, ToolsOfResponsesAreNamedInTheirFlatForm) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([1])", "tools[0]"},
      {R"([{}])", "tools[0].type"},
      {R"([{"type":"web_search"}])", "tools[0].type"},
      {R"([{"type":"function"}])", "tools[0].name"},
      {R"([{"type":"function","name":"a b"}])", "tools[0].name"},
      {R"([{"type":"function","name":"f","parameters":1}])",
       "tools[0].parameters"},
      {R"([{"type":"function","name":"f","x":1}])", "tools[0].x"},
      {R"([{"type":"function","name":"f"},
          {"type":"function","function":{"name":"f"}}])",
       "tools[1].name"},
  };
  for (const auto& [tools, param] : cases) {
    const std::string body =
        R"({"model":"nano","input":"x","tools":)" + std::string(tools) + "}";
    const absl::Status status =
        ParseResponseRequest(body, NanoTokenizer(), NanoModel(3000)).status();
    EXPECT_EQ(ParamOf(status), param) << tools;
    EXPECT_THAT(std::string(status.message()),
                ::testing::StartsWith(std::string(param) + ":"));
  }
}

TEST(OpenAiRequestTest, ATokenIdHasOneSpelling) {
  for (const char* key : {"+5", "05", "-0", " 5", "5 ", "0x5", "5.0", ""}) {
    const std::string body = R"({"model":"nano","prompt":"a","logit_bias":{")" +
                             std::string(key) + "\":1}}";
    EXPECT_EQ(
        ParamOf(ParseCompletion(body, NanoTokenizer(), NanoModel()).status()),
        "logit_bias." + std::string(key));
  }
}

TEST(OpenAiRequestTest, ToolsAreCheckedToTheLastMember) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([1])", "tools[0]"},
      {R"([{"type":"web_search"}])", "tools[0].type"},
      {R"([{"type":"function"}])", "tools[0].function"},
      {R"([{"type":"function","function":{"name":"a b"}}])",
       "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":"a","strict":1}}])",
       "tools[0].function.strict"},
      {R"([{"type":"function","function":{"name":"a","parameters":1}}])",
       "tools[0].function.parameters"},
      {R"([{"type":"function","function":{"name":"a"},"x":1}])", "tools[0].x"},
  };
  for (const auto& [tools, param] : cases) {
    EXPECT_EQ(ParamOf(Chat(",\"tools\":" + std::string(tools)).status()), param)
        << tools;
  }
}

TEST(OpenAiRequestTest, CompletionsTakeTextAndIdsAloneAndInLists) {
  const auto hi = *NanoTokenizer().Encode("Hi");
  const auto prompts = [](const std::string& json) {
    const auto request =
        ParseCompletion(R"({"model":"nano","prompt":)" + json + "}",
                        NanoTokenizer(), NanoModel());
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->prompts
                        : std::vector<std::vector<int32_t>>();
  };
  using Prompts = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(prompts("\"Hi\""), Prompts{hi});
  EXPECT_EQ(prompts("[1,2]"), (Prompts{{1, 2}}));
  EXPECT_EQ(prompts("[\"Hi\",[3]]"), (Prompts{hi, {3}}));
  for (const char* bad : {"[]", "\"\"", "[4096]", "[-1]", "[[]]", "[1,\"a\"]",
                          "[\"a\",1]", "[2147483648]"}) {
    const auto request =
        ParseCompletion(R"({"model":"nano","prompt":)" + std::string(bad) + "}",
                        NanoTokenizer(), NanoModel());
    EXPECT_THAT(ParamOf(request.status()), StartsWith("prompt")) << bad;
  }
}

TEST(OpenAiRequestTest, CompletionsHaveOpenAisDefaults) {
  const auto request = Complete("");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generation.max_new_tokens, 16);
  EXPECT_FALSE(request->generation.want_logprobs);
  const auto scored = Complete(R"(,"echo":true,"logprobs":0,"max_tokens":0)");
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_TRUE(scored->generation.want_all_logits);
  EXPECT_TRUE(scored->generation.want_logprobs);
  const auto bos = Complete(R"(,"add_special_tokens":true)");
  ASSERT_TRUE(bos.ok()) << bos.status();
  EXPECT_EQ(bos->prompts[0][0], 3840);
}

TEST(OpenAiRequestTest, BoundsTheAnswersOfOneRequest) {
  EXPECT_EQ(ParamOf(Complete(R"(,"n":129)").status()), "n");
  const auto request =
      ParseCompletion(R"({"model":"nano","prompt":["a","b"],"n":65})",
                      NanoTokenizer(), NanoModel());
  EXPECT_EQ(ParamOf(request.status()), "n");
}

TEST(OpenAiRequestTest, ResponsesTakeItemsOfAConversation) {
  const OpenAiModel model = NanoModel(3000);
  const auto request = ParseResponseRequest(
      R"({"model":"nano","instructions":"Be brief.","input":[
        {"role":"user","content":[{"type":"input_text","text":"Weather?"}]},
        {"type":"reasoning","id":"rs_1","summary":[],
         "content":[{"type":"reasoning_text","text":"hm"}]},
        {"type":"message","role":"assistant","id":"m","status":"completed",
         "content":[{"type":"output_text","text":"wait","annotations":[]}]},
        {"type":"function_call","call_id":"c","name":"w","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"sun"}],
        "tools":[{"type":"function","name":"w","parameters":{}}]})",
      NanoTokenizer(), model);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto chat = ParseChatCompletion(
      R"({"model":"nano","messages":[
        {"role":"system","content":"Be brief."},
        {"role":"user","content":"Weather?"},
        {"role":"assistant","content":"wait","reasoning_content":"hm",
         "tool_calls":[{"id":"c","type":"function",
                        "function":{"name":"w","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":"sun"}],
        "tools":[{"type":"function","function":{"name":"w","parameters":{}}}]})",
      NanoTokenizer(), model);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(request->prompts, chat->prompts);
}

}  // namespace
}  // namespace deltafin
