// Requests that wait, are cut off, or go on elsewhere.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/openai_service_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

TEST_F(OpenAiServiceTest, AFullQueueSaysWhenToComeAgain) {
  experts_.Hold();
  std::vector<ReplyPtr> running;
  running.push_back(Begin("POST", "/v1/completions", Completion("")));
  experts_.AwaitHeld();
  for (int i = 0; i < 4; ++i) {
    running.push_back(Begin("POST", "/v1/completions", Completion("")));
  }
  const ReplyPtr refused = Begin("POST", "/v1/completions", Completion(""));
  EXPECT_EQ(refused->status(), 429);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_EQ(Json::parse(refused->body())["error"]["type"], "rate_limit_error");
  experts_.Release();
  for (const ReplyPtr& reply : running) {
    reply->AwaitEnd();
    EXPECT_EQ(reply->status(), 200);
  }
}

TEST_F(OpenAiServiceTest, ChoicesAreAcceptedAllTogetherOrNotAtAll) {
  experts_.Hold();
  const ReplyPtr running = Begin("POST", "/v1/completions", Completion(""));
  experts_.AwaitHeld();
  const ReplyPtr many =
      Begin("POST", "/v1/completions", Completion(R"(,"n":5)"));
  EXPECT_EQ(many->status(), 429);
  experts_.Release();
  AwaitFinished(5);  // four of them had been queued
  EXPECT_EQ(scheduler_.stats().finished.cancelled, 4);
  running->AwaitEnd();
  EXPECT_EQ(running->status(), 200);
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

TEST_F(OpenAiServiceTest, ADeletedStreamEndsItsRequestAndIsGone) {
  const std::string body =
      Completion(R"(,"stream":true,"stream_options":{"resumable":60})");
  for (const bool is_read : {true, false}) {
    const int64_t cancelled = scheduler_.stats().finished.cancelled;
    experts_.Hold();
    const ReplyPtr reply = Begin("POST", "/v1/completions", body);
    experts_.AwaitHeld();
    const std::string id = reply->header("X-Stream-Id");
    if (!is_read) reply->GoAway();
    const ReplyPtr deleted = Ask("DELETE", "/v1/streams/" + id, "");
    EXPECT_EQ(deleted->status(), 200);
    EXPECT_EQ(Json::parse(deleted->body()),
              Json({{"id", id}, {"object", "stream"}, {"deleted", true}}));
    while (scheduler_.stats().finished.cancelled == cancelled ||
           spine_.num_sequences() > 0) {
      std::this_thread::yield();
    }
    EXPECT_EQ(Ask("GET", "/v1/streams/" + id, "")->status(), 404);
    EXPECT_EQ(Ask("DELETE", "/v1/streams/" + id, "")->status(), 404);
    experts_.Release();
    if (!is_read) continue;
    reply->AwaitEnd();
    EXPECT_THAT(Events(reply->body()).back(),
                HasSubstr("\"code\":\"cancelled\""));
  }
}

TEST_F(OpenAiServiceTest, AFinishedStreamCanBeDeleted) {
  const ReplyPtr reply =
      Begin("POST", "/v1/completions",
            Completion(R"(,"stream":true,"stream_options":{"resumable":60})"));
  reply->AwaitEnd();
  const std::string path = "/v1/streams/" + reply->header("X-Stream-Id");
  EXPECT_EQ(Ask("GET", path, "")->status(), 200);
  EXPECT_EQ(Ask("DELETE", path, "")->status(), 200);
  EXPECT_EQ(Ask("GET", path, "")->status(), 404);
  EXPECT_EQ(Events(reply->body()).back(), "[DONE]");
  EXPECT_EQ(scheduler_.stats().finished.cancelled, 0);
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

TEST_F(OpenAiServiceTest, ItsEndEndsWhatRuns) {
  experts_.Hold();
  const ReplyPtr reply = Begin("POST", "/v1/completions", Completion(""));
  experts_.AwaitHeld();
  service_.reset();
  EXPECT_EQ(reply->status(), 503);
}

}  // namespace
}  // namespace deltafin
