#include "coordinator/frontend/openai_service.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "coordinator/engine/scheduler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/recorded_reply.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::RecordedReply;
using ::testing::StartsWith;
using Json = nlohmann::json;
using ReplyPtr = std::shared_ptr<RecordedReply>;

testing::FakeSpineOptions NanoSized() {
  testing::FakeSpineOptions options;
  options.vocab_size = 4096;
  options.eos_token_id = 3842;
  return options;
}

// The events of a stream, without comments.
std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while ((at = body.find("data: ", at)) != std::string::npos) {
    const size_t end = body.find("\n\n", at);
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end;
  }
  return events;
}

// The service over an engine without weights.
class OpenAiServiceTest : public ::testing::Test {
 protected:
  OpenAiServiceTest() {
    OpenAiServiceOptions options;
    options.model = {"nano", "fp_1", absl::UnixEpoch(), 2000, 3840};
    options.eos_token_id = 3842;
    options.is_serving = [this] { return is_serving_; };
    options.metrics = [] { return "m 1\n"; };
    options.clock = &clock_;
    service_ =
        std::make_unique<OpenAiService>(options, NanoTokenizer(), scheduler_);
    service_->AddRoutes(router_);
  }
  ~OpenAiServiceTest() override {
    experts_.Release();
    service_.reset();
    scheduler_.Shutdown();
  }

  ReplyPtr Begin(const std::string& method, const std::string& path,
                 const std::string& body,
                 const std::string& type = "application/json") {
    auto reply = std::make_shared<RecordedReply>();
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers = {{"host", "localhost"}, {"content-type", type}};
    request.body = body;
    router_.Handle(request, reply);
    return reply;
  }
  ReplyPtr Ask(const std::string& method, const std::string& path,
               const std::string& query) {
    auto reply = std::make_shared<RecordedReply>();
    router_.Handle({method, path, query, {{"host", "localhost"}}, ""}, reply);
    return reply;
  }
  Json Post(const std::string& path, const std::string& body) {
    const ReplyPtr reply = Begin("POST", path, body);
    reply->AwaitEnd();
    status_ = reply->status();
    return Json::parse(reply->body());
  }
  static std::string Completion(const std::string& more) {
    return R"({"model":"nano","prompt":"It was a dark","ignore_eos":true)" +
           more + "}";
  }
  static std::string Chat(const std::string& more) {
    return R"({"model":"nano","messages":[{"role":"user","content":"Hi"}],)"
           R"("ignore_eos":true,"reasoning_effort":"none")" +
           more + "}";
  }
  void AwaitFinished(int64_t count) {
    while (scheduler_.stats().requests_finished < count) {
      std::this_thread::yield();
    }
  }

  ManualClock clock_;
  bool is_serving_ = true;
  int status_ = 0;
  testing::FakeSpine spine_{NanoSized()};
  testing::FakeRoutedExperts experts_{spine_.spec().expert_shape()};
  ForwardPass forward_{spine_, experts_};
  SchedulerOptions scheduler_options_{
      .context_tokens = 2000, .max_sequences = 4, .max_queued = 2};
  Scheduler scheduler_{scheduler_options_, forward_};
  const bool started_ = scheduler_.Start().ok();
  HttpRouter router_{RouterOptions()};
  std::unique_ptr<OpenAiService> service_;
};

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

TEST_F(OpenAiServiceTest, AFullQueueSaysWhenToComeAgain) {
  experts_.Hold();
  std::vector<ReplyPtr> running;
  running.push_back(Begin("POST", "/v1/completions", Completion("")));
  experts_.AwaitHeld();
  for (int i = 0; i < 2; ++i) {
    running.push_back(Begin("POST", "/v1/completions", Completion("")));
  }
  const ReplyPtr refused = Begin("POST", "/v1/completions", Completion(""));
  EXPECT_EQ(refused->status(), 429);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_EQ(Json::parse(refused->body())["error"]["type"], "rate_limit_error");
  // Several choices are accepted all together or not at all.
  const ReplyPtr many =
      Begin("POST", "/v1/completions", Completion(R"(,"n":3)"));
  EXPECT_EQ(many->status(), 429);
  experts_.Release();
  for (const ReplyPtr& reply : running) {
    reply->AwaitEnd();
    EXPECT_EQ(reply->status(), 200);
  }
}

TEST_F(OpenAiServiceTest, AClientThatGoesFreesItsPlace) {
  const std::pair<const char*, int> cases[] = {
      {"", 1}, {R"(,"stream":true)", 1}, {R"(,"n":2)", 2}};
  int64_t finished = 0;
  for (const auto& [more, num_choices] : cases) {
    experts_.Hold();
    const ReplyPtr reply = Begin("POST", "/v1/chat/completions", Chat(more));
    experts_.AwaitHeld();
    reply->GoAway();
    finished += num_choices;
    AwaitFinished(finished);
    while (spine_.num_sequences() > 0) std::this_thread::yield();
    experts_.Release();
  }
  EXPECT_EQ(scheduler_.stats().finished.cancelled, 4);
}

TEST_F(OpenAiServiceTest, ALongPrefillIsHeardOf) {
  experts_.Hold();
  const ReplyPtr streamed =
      Begin("POST", "/v1/chat/completions", Chat(R"(,"stream":true)"));
  const ReplyPtr whole =
      Begin("POST", "/v1/chat/completions", Chat(R"(,"max_tokens":3)"));
  experts_.AwaitHeld();
  std::string expected = ": waiting\n\n";
  std::string blanks;
  for (int i = 1; i <= 40; ++i) {
    clock_.Advance(absl::Seconds(10));
    expected += ": waiting\n\n";
    streamed->Await([&](const std::string& body) { return body == expected; });
    ASSERT_EQ(streamed->body(), expected);
    if (i < 6) continue;
    blanks += "\n";
    whole->Await([&](const std::string& body) { return body == blanks; });
    ASSERT_EQ(whole->body(), blanks);
  }
  experts_.Release();
  whole->AwaitEnd();
  EXPECT_EQ(whole->status(), 200);
  EXPECT_EQ(Json::parse(whole->body())["usage"]["completion_tokens"], 3);
  streamed->GoAway();
}

TEST_F(OpenAiServiceTest, ADroppedStreamGoesOnByItsId) {
  const ReplyPtr undisturbed =
      Begin("POST", "/v1/completions", Completion(R"(,"stream":true)"));
  undisturbed->AwaitEnd();
  experts_.Hold();
  const ReplyPtr first =
      Begin("POST", "/v1/completions",
            Completion(R"(,"stream":true,"stream_options":{"resumable":60})"));
  experts_.AwaitHeld();
  const std::string path = "/v1/streams/" + first->header("X-Stream-Id");
  first->GoAway();
  experts_.Release();
  AwaitFinished(2);
  const ReplyPtr resumed = Ask("GET", path, "from=1");
  resumed->AwaitEnd();
  std::string texts[2];
  int stream = 0;
  for (const ReplyPtr& reply : {undisturbed, resumed}) {
    const std::vector<std::string> events = Events(reply->body());
    EXPECT_EQ(events.back(), "[DONE]");
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      texts[stream] += Json::parse(events[i])["choices"][0]["text"];
    }
    ++stream;
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(Ask("GET", path, "from=999")->status(), 400);
  EXPECT_EQ(Ask("GET", path, "from=0")->status(), 400);
  EXPECT_EQ(Ask("GET", path, "x=1")->status(), 400);
  EXPECT_EQ(Ask("GET", "/v1/streams/abc", "")->status(), 404);
  clock_.Advance(absl::Seconds(61));
  EXPECT_EQ(Ask("GET", path, "from=1")->status(), 404);
}

TEST_F(OpenAiServiceTest, ATimeoutEndsTheRequest) {
  experts_.Hold();
  const ReplyPtr reply =
      Begin("POST", "/v1/completions", Completion(R"(,"timeout":0.05)"));
  reply->AwaitEnd();
  EXPECT_EQ(reply->status(), 504);
  const ReplyPtr stream = Begin("POST", "/v1/completions",
                                Completion(R"(,"timeout":0.05,"stream":true)"));
  stream->AwaitEnd();
  EXPECT_EQ(stream->status(), 200);
  EXPECT_THAT(Events(stream->body()).back(), HasSubstr("\"code\":\"timeout\""));
}

TEST_F(OpenAiServiceTest, EstimatesTheFirstTokenOnceItHasMeasuredOne) {
  const ReplyPtr first = Begin("POST", "/v1/completions", Completion(""));
  first->AwaitEnd();
  EXPECT_EQ(first->header("X-Estimated-First-Token-Seconds"), "");
  AwaitFinished(1);
  const ReplyPtr second = Begin("POST", "/v1/completions", Completion(""));
  second->AwaitEnd();
  EXPECT_NE(second->header("X-Estimated-First-Token-Seconds"), "");
}

TEST_F(OpenAiServiceTest, TellsItsModelAndItsHealth) {
  const ReplyPtr list = Begin("GET", "/v1/models", "");
  EXPECT_EQ(Json::parse(list->body())["data"][0]["id"], "nano");
  const ReplyPtr model = Begin("GET", "/v1/models/nano", "");
  EXPECT_EQ(Json::parse(model->body())["max_model_len"], 2000);
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
  const ReplyPtr good = Begin("POST", "/v1/completions", Completion(""),
                              "Application/JSON; charset=utf-8");
  good->AwaitEnd();
  EXPECT_EQ(good->status(), 200);
}

TEST_F(OpenAiServiceTest, ItsEndEndsWhatRuns) {
  experts_.Hold();
  const ReplyPtr reply = Begin("POST", "/v1/completions", Completion(""));
  experts_.AwaitHeld();
  service_.reset();
  EXPECT_EQ(reply->status(), 503);
}

}  // namespace
}  // namespace deltafin
