#include "coordinator/frontend/openai_service.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/openai_service_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(OpenAiServiceTest, AChatHasEveryDocumentedField) {
  const Json answer = Post("/v1/chat/completions", Chat(R"(,"max_tokens":5)"));
  EXPECT_EQ(status_, 200);
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_TRUE(answer["created"].is_number_integer());
  EXPECT_EQ(answer["model"], "nano");
  EXPECT_EQ(answer["system_fingerprint"], "fp_1");
  EXPECT_EQ(answer["service_tier"], "default");
  ASSERT_EQ(answer["choices"].size(), 1u);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_FALSE(choice["message"]["content"].get<std::string>().empty());
  EXPECT_TRUE(choice["message"]["refusal"].is_null());
  EXPECT_TRUE(choice["message"]["annotations"].empty());
  const Json& usage = answer["usage"];
  EXPECT_EQ(usage["completion_tokens"], 5);
  EXPECT_GT(usage["prompt_tokens"], 5);
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + 5);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(OpenAiServiceTest, AStreamSaysTheSameAsTheWhole) {
  const std::string more =
      R"(,"max_tokens":40,"n":2,"temperature":1,"seed":5,"logprobs":true,)"
      R"("top_logprobs":2)";
  const Json whole = Post("/v1/chat/completions", Chat(more));
  const ReplyPtr reply = Begin(
      "POST", "/v1/chat/completions",
      Chat(more + R"(,"stream":true,"stream_options":{"include_usage":true})"));
  reply->AwaitEnd();
  const std::vector<std::string> events = Events(reply->body());
  ASSERT_GT(events.size(), 10u);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string contents[2];
  Json scores[2] = {Json::array(), Json::array()};
  std::string reasons[2];
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_TRUE(chunk["usage"].is_null());
    const Json& choice = chunk["choices"][0];
    const int index = choice["index"];
    if (choice["delta"].contains("content")) {
      contents[index] += choice["delta"]["content"];
    }
    if (choice["logprobs"].is_object()) {
      for (const Json& score : choice["logprobs"]["content"]) {
        scores[index].push_back(score);
      }
    }
    if (!choice["finish_reason"].is_null()) {
      reasons[index] = choice["finish_reason"];
    }
  }
  EXPECT_EQ(Json::parse(events[events.size() - 2])["usage"], whole["usage"]);
  for (int i = 0; i < 2; ++i) {
    const Json& choice = whole["choices"][i];
    EXPECT_EQ(contents[i], choice["message"]["content"]);
    EXPECT_EQ(scores[i], choice["logprobs"]["content"]);
    EXPECT_EQ(reasons[i], choice["finish_reason"]);
    EXPECT_EQ(scores[i].size(), 40u);
    EXPECT_EQ(scores[i][0]["top_logprobs"].size(), 2u);
  }
  EXPECT_NE(contents[0], contents[1]);
}

TEST_F(OpenAiServiceTest, CompletionsAnswerEveryPromptInOrder) {
  const Json both = Post(
      "/v1/completions",
      R"({"model":"nano","prompt":["It was","He said"],"max_tokens":6,"n":2})");
  ASSERT_EQ(both["choices"].size(), 4u);
  const Json second =
      Post("/v1/completions",
           R"({"model":"nano","prompt":"He said","max_tokens":6})");
  EXPECT_EQ(both["choices"][2]["text"], second["choices"][0]["text"]);
  EXPECT_EQ(both["choices"][3]["index"], 3);
  EXPECT_EQ(second["object"], "text_completion");
  EXPECT_THAT(second["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_EQ(both["usage"]["completion_tokens"], 24);
}

TEST_F(OpenAiServiceTest, EchoScoresThePromptItself) {
  const Json answer =
      Post("/v1/completions",
           Completion(R"(,"echo":true,"logprobs":1,"max_tokens":0)"));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], "It was a dark");
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& scores = choice["logprobs"];
  const auto ids = *NanoTokenizer().Encode("It was a dark");
  ASSERT_EQ(scores["tokens"].size(), ids.size());
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  EXPECT_TRUE(scores["top_logprobs"][0].is_null());
  std::string joined;
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(scores["text_offset"][i], joined.size());
    joined += scores["tokens"][i];
    if (i == 0) continue;
    EXPECT_LT(scores["token_logprobs"][i], 0.0);
    EXPECT_EQ(scores["top_logprobs"][i].size(), 1u);
  }
  EXPECT_EQ(joined, "It was a dark");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  const Json more =
      Post("/v1/completions", Completion(R"(,"echo":true,"logprobs":1)"));
  EXPECT_EQ(more["choices"][0]["logprobs"]["tokens"].size(), ids.size() + 16);
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_EQ(more["choices"][0]["logprobs"]["token_logprobs"][i],
              scores["token_logprobs"][i]);
  }
}

TEST_F(OpenAiServiceTest, StopEndsBeforeTheString) {
  const Json whole = Post("/v1/completions", Completion(R"(,"max_tokens":20)"));
  const std::string text = whole["choices"][0]["text"];
  const std::string stop = text.substr(text.size() / 2, 4);
  const Json cut = Post(
      "/v1/completions",
      Completion(R"(,"max_tokens":20,"stop":[)" + Json(stop).dump() + "]"));
  EXPECT_EQ(cut["choices"][0]["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "stop");
}

TEST_F(OpenAiServiceTest, ResponsesStreamWhatTheyAreInTheEnd) {
  const std::string body =
      R"({"model":"nano","input":"Hi","instructions":"Be brief.",)"
      R"("max_output_tokens":8,"ignore_eos":true,"reasoning":{"effort":"low"})";
  const Json whole = Post("/v1/responses", body + "}");
  EXPECT_EQ(status_, 200) << whole;
  EXPECT_EQ(whole["object"], "response");
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(whole["instructions"], "Be brief.");
  EXPECT_EQ(whole["usage"]["output_tokens"], 8);
  ASSERT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  const ReplyPtr reply =
      Begin("POST", "/v1/responses", body + R"(,"stream":true})");
  reply->AwaitEnd();
  std::string text;
  std::vector<Json> events;
  for (const std::string& data : Events(reply->body())) {
    events.push_back(Json::parse(data));
    EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
    if (events.back()["type"] == "response.reasoning_text.delta") {
      text += events.back()["delta"];
    }
  }
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_THAT(reply->body(), HasSubstr("event: response.incomplete\n"));
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(events.back()["response"]["output"][0]["content"],
            whole["output"][0]["content"]);
}

TEST_F(OpenAiServiceTest, TellsItsModelAndItsHealth) {
  const ReplyPtr list = Begin("GET", "/v1/models", "");
  EXPECT_EQ(Json::parse(list->body())["data"][0]["id"], "nano");
  const ReplyPtr model = Begin("GET", "/v1/models/nano", "");
  EXPECT_EQ(Json::parse(model->body())["max_model_len"], 2000);
  EXPECT_EQ(Begin("GET", "/v1/models/n%61n%6F", "")->status(), 200);
  EXPECT_EQ(Begin("GET", "/v1/models/gpt", "")->status(), 404);
  EXPECT_EQ(Begin("GET", "/healthz", "")->status(), 200);
  is_serving_ = false;
  EXPECT_EQ(Begin("GET", "/healthz", "")->status(), 503);
  EXPECT_EQ(Begin("GET", "/metrics", "")->body(), "m 1\n");
}

TEST_F(OpenAiServiceTest, TokenizesAndBack) {
  const Json ids = Post("/tokenize", R"({"prompt":"Hi<|sep|>"})");
  EXPECT_EQ(ids["tokens"], Json(*NanoTokenizer().Encode("Hi<|sep|>")));
  EXPECT_EQ(ids["count"], ids["tokens"].size());
  Json body;
  body["tokens"] = ids["tokens"];
  EXPECT_EQ(Post("/detokenize", body.dump())["prompt"], "Hi<|sep|>");
  const Json chat =
      Post("/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(chat["tokens"].back(), 3845);
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[4096]})")["error"]["param"],
            "tokens[0]");
  EXPECT_EQ(Post("/tokenize", R"({"prompt":"a","x":1})")["error"]["param"],
            "x");
}

TEST_F(OpenAiServiceTest, WantsJsonAsJson) {
  const ReplyPtr reply =
      Begin("POST", "/v1/completions", Completion(""), "text/plain");
  EXPECT_EQ(reply->status(), 415);
  EXPECT_EQ(Begin("POST", "/v1/completions", Completion(""),
                  "application/json; charset=utf-16")
                ->status(),
            415);
  for (const char* type :
       {"Application/JSON; charset=utf-8", "application/json;charset=\"UTF-8\"",
        "application/json ; x=y"}) {
    const ReplyPtr good =
        Begin("POST", "/v1/completions", Completion(""), type);
    good->AwaitEnd();
    EXPECT_EQ(good->status(), 200) << type;
  }
}

TEST_F(OpenAiServiceTest, TakesNoCompressedBody) {
  for (const std::string coding : {"gzip", "identity"}) {
    auto reply = std::make_shared<RecordedReply>();
    router_.Handle({"POST",
                    "/tokenize",
                    "",
                    {{"host", "localhost"},
                     {"content-type", "application/json"},
                     {"content-encoding", coding}},
                    R"({"prompt":"a"})"},
                   reply);
    EXPECT_EQ(reply->status(), coding == "gzip" ? 415 : 200);
  }
}

}  // namespace
}  // namespace deltafin
