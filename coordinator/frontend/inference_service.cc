#include "coordinator/frontend/inference_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "coordinator/frontend/reply_stream.h"
#include "coordinator/frontend/text_sink.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : absl::FromChrono(deadline);
}

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kNone:
      break;
  }
  return "";
}

// Errors: INVALID_ARGUMENT.
template <typename Request>
absl::StatusOr<Request> Parse(grpc::ByteBuffer bytes) {
  const size_t length = bytes.Length();
  Request request;
  if (grpc::SerializationTraits<Request>::Deserialize(&bytes, &request).ok()) {
    return request;
  }
  return absl::InvalidArgumentError(fmt::format(
      "a message of {} bytes is no {}", length, Request::descriptor()->name()));
}

template <typename Reply>
grpc::ByteBuffer Serialize(const Reply& reply) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status status =
      grpc::SerializationTraits<Reply>::Serialize(reply, &bytes, &own_buffer);
  CHECK(status.ok(), "our own message is valid");
  return bytes;
}

v1::GenerateReply TokenReply(const TextDelta& delta) {
  v1::GenerateReply reply;
  reply.set_text_delta(std::string(delta.content));
  reply.set_reasoning_delta(std::string(delta.reasoning));
  if (delta.token == nullptr) return reply;
  reply.set_has_token(true);
  reply.set_id(delta.token->id);
  reply.set_logprob(delta.token->logprob);
  for (const TokenLogprob& alternative : delta.token->top_logprobs) {
    v1::TokenLogprob* wire = reply.add_top_logprobs();
    wire->set_id(alternative.id);
    wire->set_logprob(alternative.logprob);
  }
  return reply;
}

v1::GenerateReply LastReply(const RequestResult& result,
                            std::vector<ToolCall> calls) {
  v1::GenerateReply reply;
  reply.set_finish_reason(FinishReasonName(result.finish_reason));
  reply.set_request_id(result.id);
  reply.mutable_usage()->set_prompt_tokens(result.usage.prompt_tokens);
  reply.mutable_usage()->set_completion_tokens(result.usage.completion_tokens);
  reply.mutable_usage()->set_cached_prompt_tokens(result.usage.cached_tokens);
  v1::Timings* timings = reply.mutable_timings();
  timings->set_queue_seconds(absl::ToDoubleSeconds(result.timings.queue));
  timings->set_prefill_seconds(absl::ToDoubleSeconds(result.timings.prefill));
  timings->set_decode_seconds(absl::ToDoubleSeconds(result.timings.decode));
  for (ToolCall& call : calls) {
    v1::ToolCall* wire = reply.add_tool_calls();
    wire->set_id(std::move(call.id));
    wire->set_name(std::move(call.name));
    wire->set_arguments_json(std::move(call.arguments_json));
  }
  return reply;
}

// One Generate call: the engine's sink on one side, gRPC's writer on the other.
// Lives until both are done with it.
class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public TokenSink,
                           private ReplyTransport {
 public:
  // Returns the reactor of a call that was accepted or refused.
  static GenerateCall* Begin(const InferenceServiceOptions& options,
                             const Tokenizer& tokenizer, Scheduler& scheduler,
                             const grpc::CallbackServerContext& context,
                             const grpc::ByteBuffer& request) {
    auto call = std::make_shared<GenerateCall>(options, scheduler);
    call->kept_by_rpc_ = call;
    call->kept_by_engine_ = call;
    const absl::StatusOr<RequestId> id =
        call->Submit(options, tokenizer, DeadlineOf(context), request);
    call->request_id_ = id.value_or(0);
    if (!id.ok()) {
      call->kept_by_engine_.reset();
      call->replies_.Finish(id.status());
    }
    return call.get();
  }

  GenerateCall(const InferenceServiceOptions& options, Scheduler& scheduler)
      : scheduler_(scheduler), replies_(*this, options.max_unread_bytes) {}

  SinkAction OnToken(const TokenEvent& event) override {
    const SinkAction action = text_->OnToken(event);
    return readable_ ? action : SinkAction::kStop;
  }
  void OnFinish(const RequestResult& result) override {
    const auto self = std::move(kept_by_engine_);
    text_->OnFinish(result);
  }

  void OnWriteDone(bool ok) override { replies_.WriteDone(ok); }
  // On a thread of gRPC's: the number is read first, since it publishes what
  // Begin wrote before.
  void OnCancel() override {
    const RequestId id = request_id_;
    scheduler_.Cancel(id);
  }
  void OnDone() override { kept_by_rpc_.reset(); }

 private:
  void Write(const v1::GenerateReply& reply) override {
    written_ = Serialize(reply);
    StartWrite(&written_);
  }
  void End(const absl::Status& status) override { Finish(ToGrpc(status)); }

  absl::StatusOr<RequestId> Submit(const InferenceServiceOptions& options,
                                   const Tokenizer& tokenizer,
                                   absl::Time deadline,
                                   const grpc::ByteBuffer& bytes) {
    ASSIGN_OR_RETURN(const v1::GenerateRequest request,
                     Parse<v1::GenerateRequest>(bytes));
    ASSIGN_OR_RETURN(
        ParsedGenerateRequest parsed,
        ParseGenerateRequest(request, tokenizer, options.defaults));
    parsed.generation.deadline = deadline;
    ASSIGN_OR_RETURN(
        text_,
        TextSink::Create(
            tokenizer, std::move(parsed.text),
            {[this](const TextDelta& d) { OnDelta(d); }, nullptr,
             [this](const RequestResult& result, std::vector<ToolCall> calls) {
               OnResult(result, std::move(calls));
             }}));
    return scheduler_.Submit(std::move(parsed.generation), this);
  }

  void OnDelta(const TextDelta& delta) {
    if (readable_) readable_ = replies_.Add(TokenReply(delta));
  }

  void OnResult(const RequestResult& result, std::vector<ToolCall> calls) {
    if (result.status.ok() && readable_) {
      replies_.Add(LastReply(result, std::move(calls)));
    }
    replies_.Finish(result.status);
  }

  Scheduler& scheduler_;
  ReplyStream replies_;
  grpc::ByteBuffer written_;  // the reply on its way
  std::unique_ptr<TextSink> text_;
  std::atomic<RequestId> request_id_ = 0;  // 0: refused
  bool readable_ = true;  // engine thread: replies are still taken
  std::shared_ptr<GenerateCall> kept_by_rpc_;
  std::shared_ptr<GenerateCall> kept_by_engine_;
};

// Answers a unary call with what `method` makes of its request.
template <typename Request, typename Reply, typename Method>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer& bytes,
                                 grpc::ByteBuffer* reply_bytes,
                                 const Method& method) {
  const absl::StatusOr<Request> request = Parse<Request>(bytes);
  absl::Status status = request.status();
  Reply reply;
  if (status.ok()) status = method(*request, &reply);
  *reply_bytes = Serialize(reply);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

InferenceService::InferenceService(InferenceServiceOptions options,
                                   const Tokenizer& tokenizer,
                                   Scheduler& scheduler)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      scheduler_(scheduler) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return GenerateCall::Begin(options_, tokenizer_, scheduler_, *context,
                             *request);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Answer<v1::TokenizeRequest, v1::TokenizeReply>(
      context, *request, reply,
      [this](const auto& text, auto* ids) { return TokenizeText(text, ids); });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Answer<v1::DetokenizeRequest, v1::DetokenizeReply>(
      context, *request, reply,
      [this](const auto& ids, auto* text) { return DetokenizeIds(ids, text); });
}

grpc::ServerUnaryReactor* InferenceService::GetModel(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* reply) {
  return Answer<v1::GetModelRequest, v1::Model>(
      context, *request, reply,
      [this](const v1::GetModelRequest&, v1::Model* model) {
        *model = options_.model;
        return absl::OkStatus();
      });
}

absl::Status InferenceService::TokenizeText(const v1::TokenizeRequest& request,
                                            v1::TokenizeReply* reply) const {
  const auto ids = tokenizer_.Encode(request.text(), request.control()
                                                         ? SegmentKind::kControl
                                                         : SegmentKind::kText);
  if (ids.ok()) reply->mutable_ids()->Add(ids->begin(), ids->end());
  return AddContext(ids.status(), "text");
}

absl::Status InferenceService::DetokenizeIds(
    const v1::DetokenizeRequest& request, v1::DetokenizeReply* reply) const {
  const auto ids = ParseIds(request.ids(), "ids");
  if (!ids.ok()) return ids.status();
  auto text = tokenizer_.Decode(*ids);
  if (text.ok()) reply->set_text(*std::move(text));
  return AddContext(text.status(), "ids");
}

}  // namespace deltafin
