// Input: the bytes of a GenerateRequest, sent to a server as they are, over an
// engine without weights. The call ends by itself with one of a few codes, its
// GenerateReplies are within what was asked for, and the engine is left empty.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/net/server_lifecycle.h"
#include "coordinator/frontend/inference_service.h"
#include "tests/fuzz/coordinator/chat_tokenizer.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"

namespace v1 = deltafin::v1;
using deltafin::ChatTokenizer;
using grpc::StatusCode;

namespace {

constexpr int kContext = 512;
constexpr uint32_t kMostTokens = 6;
constexpr absl::Duration kLongest = absl::Seconds(60);

deltafin::testing::FakeSpineOptions SpineOptions() {
  deltafin::testing::FakeSpineOptions options;
  options.vocab_size = ChatTokenizer().vocabulary().size();
  options.eos_token_id = options.vocab_size - 1;
  options.num_layers = 2;
  return options;
}

struct Server {
  Server()
      : spine(SpineOptions()),
        experts(spine.spec().expert_shape()),
        forward(spine, experts),
        scheduler({.context_tokens = kContext}, forward),
        service({.model = {}, .defaults = {0, kMostTokens}}, ChatTokenizer(),
                scheduler) {
    CHECK_OK(scheduler.Start());
    grpc::Service* const services[] = {&service};
    server = *deltafin::ServerLifecycle::Start({""}, services);
    stub = std::make_unique<grpc::GenericStub>(server->InProcessChannel());
  }
  ~Server() {
    server->Shutdown(absl::ZeroDuration());
    scheduler.Shutdown();
  }

  deltafin::testing::FakeSpine spine;
  deltafin::testing::FakeRoutedExperts experts;
  deltafin::ForwardPass forward;
  deltafin::Scheduler scheduler;
  deltafin::InferenceService service;
  std::unique_ptr<deltafin::ServerLifecycle> server;
  std::unique_ptr<grpc::GenericStub> stub;
};

Server& TheServer() {
  static Server server;
  return server;
}

struct Answer {
  std::vector<v1::GenerateReply> replies;
  grpc::Status status;
};

Answer Generate(const std::string& bytes) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLongest));
  grpc::CompletionQueue queue;
  const auto call = TheServer().stub->PrepareCall(
      &context, "/deltafin.v1.InferenceService/Generate", &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto wait = [&] {
    CHECK(queue.Next(&tag, &ok));
    return ok;
  };
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  wait();
  Answer answer;
  while (true) {
    grpc::ByteBuffer reply_bytes;
    call->Read(&reply_bytes, nullptr);
    if (!wait()) break;
    CHECK(grpc::SerializationTraits<v1::GenerateReply>::Deserialize(
              &reply_bytes, &answer.replies.emplace_back())
              .ok());
  }
  call->Finish(&answer.status, nullptr);
  wait();
  return answer;
}

void CheckReplies(const v1::GenerateRequest& request,
                  const std::vector<v1::GenerateReply>& replies) {
  CHECK(!replies.empty());
  const auto bound = static_cast<uint32_t>(ChatTokenizer().vocabulary().size());
  uint32_t num_tokens = 0;
  for (const v1::GenerateReply& reply : replies) {
    CHECK(reply.id() < bound);
    CHECK(reply.top_logprobs_size() <= static_cast<int>(request.logprobs()));
    num_tokens += reply.has_token() ? 1 : 0;
    CHECK(reply.finish_reason().empty() == (&reply != &replies.back()));
  }
  const v1::GenerateReply& last = replies.back();
  CHECK(last.usage().completion_tokens() == num_tokens);
  CHECK(num_tokens <= kMostTokens);
  CHECK(last.usage().prompt_tokens() + num_tokens <= kContext);
  CHECK(!request.prompt_only() || num_tokens == 0);
  CHECK(last.usage().cached_prompt_tokens() <= last.usage().prompt_tokens());
  CHECK(last.usage().reasoning_tokens() <= num_tokens);
}

void CheckRefusal(const grpc::Status& status) {
  constexpr StatusCode kCodes[] = {
      StatusCode::INVALID_ARGUMENT, StatusCode::FAILED_PRECONDITION,
      StatusCode::RESOURCE_EXHAUSTED, StatusCode::OUT_OF_RANGE};
  CHECK(std::ranges::find(kCodes, status.error_code()) != std::end(kCodes),
        status.error_message());
  CHECK(!status.error_message().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (!silent) return 0;
  std::string sent(reinterpret_cast<const char*>(bytes), size);
  v1::GenerateRequest request;
  const bool is_message = request.ParseFromString(sent);
  if (is_message && request.max_new_tokens() > kMostTokens) {
    // More takes time and no other path.
    request.set_max_new_tokens(kMostTokens);
    sent = request.SerializeAsString();
  }
  const Answer answer = Generate(sent);
  CHECK(is_message ||
        answer.status.error_code() == StatusCode::INVALID_ARGUMENT);
  if (answer.status.ok()) {
    CheckReplies(request, answer.replies);
  } else {
    CheckRefusal(answer.status);
  }
  return 0;
}
