// tests/unit/coordinator/frontend/openai_service_fixture.h
//
// The OpenAI API over an engine without weights, asked without a socket.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/openai_service.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/recorded_reply.h"
#include "tests/testing/scripted_spine.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {

using testing::RecordedReply;
using Json = nlohmann::json;
using ReplyPtr = std::shared_ptr<RecordedReply>;

inline testing::FakeSpineOptions NanoSized() {
  testing::FakeSpineOptions options;
  options.vocab_size = 4096;
  options.eos_token_id = 3842;
  return options;
}

// The events of a stream, without comments.
inline std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while ((at = body.find("data: ", at)) != std::string::npos) {
    const size_t end = body.find("\n\n", at);
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end;
  }
  return events;
}

class OpenAiServiceTest : public ::testing::Test {
 protected:
  OpenAiServiceTest() {
    OpenAiServiceOptions options;
    options.model = {"nano", "fp_1", absl::UnixEpoch(), 2000, 3840};
    options.eos_token_id = 3842;
    options.is_serving = [this] { return is_serving_; };
    options.metrics = [] { return "m 1\n"; };
    options.clock = &clock_;
    options.pulse = absl::Milliseconds(1);
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
  // From now on the model answers `chat`, a body without its last bracket, and
  // whatever has as many tokens, with these ids.
  void Answer(const std::string& chat, std::vector<int32_t> ids) {
    script_.clear();
    const Json one = Post("/v1/chat/completions", chat + R"(,"max_tokens":1})");
    prompt_tokens_ = one["usage"]["prompt_tokens"];
    script_ = std::move(ids);
  }
  void AwaitFinished(int64_t count) {
    while (scheduler_.stats().requests_finished < count) {
      std::this_thread::yield();
    }
  }

  ManualClock clock_;
  bool is_serving_ = true;
  int status_ = 0;
  std::vector<int32_t> script_;  // empty: what the FakeSpine says
  size_t prompt_tokens_ = 0;
  testing::ScriptedSpine spine_{
      NanoSized(), [this](std::span<const int32_t> ids) {
        const size_t at = ids.size() - std::min(ids.size(), prompt_tokens_);
        return at < script_.size() ? script_[at] : -1;
      }};
  testing::FakeRoutedExperts experts_{spine_.spec().expert_shape()};
  ForwardPass forward_{spine_, experts_};
  SchedulerOptions scheduler_options_{
      .context_tokens = 2000, .max_sequences = 4, .max_queued = 4};
  Scheduler scheduler_{scheduler_options_, forward_};
  const bool started_ = scheduler_.Start().ok();
  HttpRouter router_{RouterOptions()};
  std::unique_ptr<OpenAiService> service_;
};

}  // namespace deltafin
