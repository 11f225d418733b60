#include "coordinator/frontend/inference_service.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <thread>

#include "common/net/server_lifecycle.h"
#include "coordinator/engine/scheduler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

testing::FakeSpineOptions NanoSized() {
  testing::FakeSpineOptions options;
  options.vocab_size = 4096;
  options.eos_token_id = 3842;
  return options;
}

struct Answer {
  std::vector<v1::GenerateReply> replies;
  grpc::Status status;

  std::string text() const {
    std::string text;
    for (const auto& reply : replies) text += reply.text_delta();
    return text;
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const auto& reply : replies) {
      if (reply.has_token()) ids.push_back(static_cast<int32_t>(reply.id()));
    }
    return ids;
  }
};

// The service behind a real socket, over an engine without weights.
class InferenceServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(size_t{1} << 20); }

  void TearDown() override {
    experts_.Release();
    server_->Shutdown(absl::ZeroDuration());
    scheduler_.Shutdown();
  }

  void StartServer(size_t max_unread_bytes) {
    if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
    InferenceServiceOptions options;
    options.model.set_name("nano");
    options.model.set_vocab_size(4096);
    options.defaults = {3840, 16};
    options.max_unread_bytes = max_unread_bytes;
    service_ = std::make_unique<InferenceService>(options, NanoTokenizer(),
                                                  scheduler_);
    grpc::Service* const services[] = {service_.get()};
    server_ = *ServerLifecycle::Start({"127.0.0.1:0"}, services);
    // A small window, so that a client that does not read is soon full.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8192);
    stub_ = v1::InferenceService::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), arguments));
  }

  Answer Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(60));
    return Read(*stub_->Generate(&context, request));
  }

  static Answer Read(grpc::ClientReader<v1::GenerateReply>& reader) {
    Answer answer;
    v1::GenerateReply reply;
    while (reader.Read(&reply)) answer.replies.push_back(reply);
    answer.status = reader.Finish();
    return answer;
  }

  // Waits until the engine has finished `count` requests.
  void AwaitFinished(int64_t count) {
    while (scheduler_.stats().requests_finished < count) {
      std::this_thread::yield();
    }
  }

  static v1::GenerateRequest TextRequest(uint32_t max_new_tokens) {
    v1::GenerateRequest request;
    request.set_text("It was a dark night");
    request.set_max_new_tokens(max_new_tokens);
    request.set_ignore_eos(true);
    return request;
  }

  testing::FakeSpine spine_{NanoSized()};
  testing::FakeRoutedExperts experts_{spine_.spec().expert_shape()};
  ForwardPass forward_{spine_, experts_};
  SchedulerOptions scheduler_options_{.context_tokens = 200000};
  Scheduler scheduler_{scheduler_options_, forward_};
  const bool started_ = scheduler_.Start().ok();
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<ServerLifecycle> server_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

TEST_F(InferenceServiceTest, StreamsEachTokenAndThenTheEnd) {
  const Answer answer = Generate(TextRequest(5));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const auto ids = answer.ids();
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_EQ(answer.text(), *NanoTokenizer().Decode(ids));
  const v1::GenerateReply& last = answer.replies.back();
  EXPECT_FALSE(last.has_token());
  EXPECT_EQ(last.finish_reason(), "length");
  EXPECT_EQ(last.usage().prompt_tokens(),
            NanoTokenizer().Encode("It was a dark night")->size());
  EXPECT_EQ(last.usage().completion_tokens(), 5u);
}

TEST_F(InferenceServiceTest, UsesItsDefaultLength) {
  EXPECT_EQ(Generate(TextRequest(0)).ids().size(), 16u);
}

TEST_F(InferenceServiceTest, ReportsLogprobsThatWereAskedFor) {
  v1::GenerateRequest request = TextRequest(2);
  request.set_logprobs(3);
  const Answer answer = Generate(request);
  ASSERT_EQ(answer.replies[0].top_logprobs_size(), 3);
  EXPECT_EQ(answer.replies[0].top_logprobs(0).id(), answer.replies[0].id());
  EXPECT_LT(answer.replies[0].logprob(), 0);
  EXPECT_EQ(answer.replies[0].logprob(),
            answer.replies[0].top_logprobs(0).logprob());
}

TEST_F(InferenceServiceTest, ScoresThePromptAndGeneratesNothing) {
  v1::GenerateRequest request = TextRequest(0);
  request.set_prompt_logprobs(true);
  request.set_prompt_only(true);
  request.set_logprobs(2);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const auto ids = *NanoTokenizer().Encode("It was a dark night");
  ASSERT_EQ(answer.replies.size(), ids.size());  // all but the first, the end
  for (size_t i = 1; i < ids.size(); ++i) {
    const v1::GenerateReply& reply = answer.replies[i - 1];
    EXPECT_TRUE(reply.has_prompt_token());
    EXPECT_FALSE(reply.has_token());
    EXPECT_EQ(reply.id(), ids[i]);
    EXPECT_LT(reply.logprob(), 0);
    ASSERT_EQ(reply.top_logprobs_size(), 2);
    EXPECT_GE(reply.top_logprobs(0).logprob(), reply.logprob());
  }
  EXPECT_EQ(answer.replies.back().finish_reason(), "length");
  EXPECT_EQ(answer.replies.back().usage().completion_tokens(), 0u);
}

TEST_F(InferenceServiceTest, ScoresThePromptBeforeItGoesOn) {
  v1::GenerateRequest request = TextRequest(3);
  const auto plain = Generate(request).ids();
  request.set_prompt_logprobs(true);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.ids(), plain);
  size_t scored = 0;
  while (answer.replies[scored].has_prompt_token()) ++scored;
  EXPECT_EQ(scored + 1, NanoTokenizer().Encode("It was a dark night")->size());
}

TEST_F(InferenceServiceTest, StopsAtAStopString) {
  const Answer whole = Generate(TextRequest(8));
  v1::GenerateRequest request = TextRequest(8);
  const std::string stop = *NanoTokenizer().Decode(
      std::vector<int32_t>{whole.ids()[3], whole.ids()[4]});
  request.mutable_sampling()->add_stop(stop);
  const Answer cut = Generate(request);
  EXPECT_EQ(cut.text(), whole.text().substr(0, whole.text().find(stop)));
  EXPECT_EQ(cut.replies.back().finish_reason(), "stop_string");
  EXPECT_EQ(cut.ids().size(), 5u);
}

TEST_F(InferenceServiceTest, AnswersSeveralCallsAtOnceAsAlone) {
  const auto alone = Generate(TextRequest(20)).ids();
  std::vector<Answer> answers(6);
  std::vector<std::thread> clients;
  for (Answer& answer : answers) {
    clients.emplace_back([&] { answer = Generate(TextRequest(20)); });
  }
  for (std::thread& client : clients) client.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer.ids(), alone);
}

TEST_F(InferenceServiceTest, RefusesWhatIsOutOfRangeByName) {
  v1::GenerateRequest request = TextRequest(1);
  request.mutable_sampling()->set_top_p(2);
  Answer answer = Generate(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("top_p"));
  request.mutable_ids()->add_ids(4096);
  answer = Generate(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(answer.replies.empty());
}

TEST_F(InferenceServiceTest, BytesThatAreNoRequestAreRefusedWithoutNoise) {
  const auto channel = grpc::CreateChannel(server_->address(),
                                           grpc::InsecureChannelCredentials());
  const grpc::Slice slice("\x0a\xff\xff no message");
  ::testing::internal::CaptureStderr();
  for (const std::string method :
       {"Generate", "Tokenize", "Detokenize", "GetModel"}) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(
        &context, "/deltafin.v1.InferenceService/" + method, &queue);
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    queue.Next(&tag, &ok);
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(),
              "a message of 14 bytes is no " + method + "Request");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(Generate(TextRequest(2)).status.ok());
}

TEST_F(InferenceServiceTest, CancellingTheCallFreesItsSequence) {
  experts_.Hold();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, TextRequest(1000));
  experts_.AwaitHeld();
  context.TryCancel();
  AwaitFinished(1);
  EXPECT_EQ(Read(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  while (spine_.num_sequences() > 0) std::this_thread::yield();
  EXPECT_EQ(experts_.steps_abandoned(), 1);
}

TEST_F(InferenceServiceTest, TheDeadlineEndsTheRequest) {
  experts_.Hold();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(50));
  auto reader = stub_->Generate(&context, TextRequest(1000));
  AwaitFinished(1);
  EXPECT_EQ(Read(*reader).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(InferenceServiceTest, AClientThatDoesNotReadIsCutOff) {
  StartServer(5000);
  grpc::ClientContext context;
  v1::GenerateRequest request = TextRequest(150000);
  request.set_logprobs(20);  // large replies
  auto reader = stub_->Generate(&context, request);
  AwaitFinished(1);
  // The engine is free again; what was sent can still be read.
  const Answer answer = Read(*reader);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LT(answer.ids().size(), 150000u);
  EXPECT_TRUE(Generate(TextRequest(2)).status.ok());
}

TEST_F(InferenceServiceTest, TokenizesBothKindsOfText) {
  v1::TokenizeRequest request;
  request.set_text("Hi<|sep|>");
  v1::TokenizeReply reply;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Tokenize(&context, request, &reply).ok());
  EXPECT_EQ(std::vector<int32_t>(reply.ids().begin(), reply.ids().end()),
            *NanoTokenizer().Encode("Hi<|sep|>"));
  request.set_control(true);
  grpc::ClientContext control_context;
  ASSERT_TRUE(stub_->Tokenize(&control_context, request, &reply).ok());
  EXPECT_EQ(reply.ids(reply.ids_size() - 1), 3845u);
}

TEST_F(InferenceServiceTest, TokenizesConversations) {
  const auto ask = [this](const v1::TokenizeRequest& request) {
    v1::TokenizeReply reply;
    grpc::ClientContext context;
    const auto status = stub_->Tokenize(&context, request, &reply);
    if (!status.ok()) return std::vector<int32_t>{-1};
    return std::vector<int32_t>(reply.ids().begin(), reply.ids().end());
  };
  v1::TokenizeRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Hi");
  const std::vector<int32_t> whole = ask(request);
  EXPECT_EQ(whole.back(), 3845);
  request.set_no_generation_prompt(true);
  const std::vector<int32_t> bare = ask(request);
  ASSERT_LT(bare.size(), whole.size());
  EXPECT_TRUE(std::equal(bare.begin(), bare.end(), whole.begin()));
  request.set_add_bos(true);
  EXPECT_EQ(ask(request), std::vector<int32_t>{-1});

  v1::TokenizeRequest text;
  text.set_text("Hi");
  text.set_add_bos(true);
  EXPECT_EQ(ask(text)[0], 3840);
  text.set_no_generation_prompt(true);
  EXPECT_EQ(ask(text), std::vector<int32_t>{-1});
}

TEST_F(InferenceServiceTest, DetokenizesOrNamesTheId) {
  v1::DetokenizeRequest request;
  const auto ids = *NanoTokenizer().Encode("Some text");
  request.mutable_ids()->Add(ids.begin(), ids.end());
  v1::DetokenizeReply reply;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Detokenize(&context, request, &reply).ok());
  EXPECT_EQ(reply.text(), "Some text");
  request.add_ids(4096);
  grpc::ClientContext bad_context;
  const auto status = stub_->Detokenize(&bad_context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("4096"));
}

TEST_F(InferenceServiceTest, TellsWhichModelItServes) {
  v1::Model model;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->GetModel(&context, {}, &model).ok());
  EXPECT_EQ(model.name(), "nano");
  EXPECT_EQ(model.vocab_size(), 4096u);
}

}  // namespace
}  // namespace deltafin
