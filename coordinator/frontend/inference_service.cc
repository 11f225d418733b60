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
#include "coordinator/engine/logprobs.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/generate_reply.h"
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
  void OnLogits(int64_t position, std::span<const float> logits) override {
    if (position + 1 >= std::ssize(scored_prompt_) || !readable_) return;
    const int32_t id = scored_prompt_[position + 1];
    readable_ = replies_.Add(
        PromptTokenReply(id, ComputeLogprobs(logits, id, top_logprobs_)));
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
    if (parsed.generation.want_all_logits) {
      scored_prompt_ = parsed.generation.prompt_ids;
      top_logprobs_ = parsed.generation.top_logprobs;
    }
    ASSIGN_OR_RETURN(
        text_,
        TextSink::Create(tokenizer, std::move(parsed.text),
                         {[this](const TextDelta& d) { OnDelta(d); }, nullptr,
                          [this](const RequestResult& result,
                                 const std::vector<ToolCall>& calls) {
                            OnResult(result, calls);
                          }}));
    return scheduler_.Submit(std::move(parsed.generation), this);
  }

  void OnDelta(const TextDelta& delta) {
    if (delta.token != nullptr && delta.part == OutputPart::kReasoning) {
      ++reasoning_tokens_;
    }
    if (readable_) readable_ = replies_.Add(TokenReply(delta));
  }

  void OnResult(const RequestResult& result,
                const std::vector<ToolCall>& calls) {
    if (result.status.ok() && readable_) {
      replies_.Add(LastReply(result, calls, reasoning_tokens_));
    }
    replies_.Finish(result.status);
  }

  Scheduler& scheduler_;
  ReplyStream replies_;
  grpc::ByteBuffer written_;  // the reply on its way
  std::unique_ptr<TextSink> text_;
  std::atomic<RequestId> request_id_ = 0;  // 0: refused
  std::vector<int32_t> scored_prompt_;     // empty: it is not scored
  int top_logprobs_ = 0;
  // Engine thread.
  bool readable_ = true;  // replies are still taken
  int reasoning_tokens_ = 0;
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

absl::StatusOr<std::vector<int32_t>> InferenceService::EncodeMessages(
    const v1::TokenizeRequest& request) const {
  if (!request.text().empty() || request.control() || request.add_bos()) {
    return absl::InvalidArgumentError(
        "chat: goes without text, control and add_bos");
  }
  ASSIGN_OR_RETURN(ChatRequest chat, ParseChat(request.chat()));
  chat.generation_prompt = !request.no_generation_prompt();
  auto ids = EncodeChat(tokenizer_, chat);
  if (!ids.ok()) return AddContext(ids.status(), "chat");
  return ids;
}

absl::StatusOr<std::vector<int32_t>> InferenceService::EncodeText(
    const v1::TokenizeRequest& request) const {
  if (request.no_generation_prompt()) {
    return absl::InvalidArgumentError("no_generation_prompt: needs chat");
  }
  auto ids = tokenizer_.Encode(request.text(), request.control()
                                                   ? SegmentKind::kControl
                                                   : SegmentKind::kText);
  if (!ids.ok()) return AddContext(ids.status(), "text");
  if (request.add_bos()) {
    ids->insert(ids->begin(), options_.defaults.bos_token_id);
  }
  return ids;
}

absl::Status InferenceService::TokenizeText(const v1::TokenizeRequest& request,
                                            v1::TokenizeReply* reply) const {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, request.has_chat()
                                                       ? EncodeMessages(request)
                                                       : EncodeText(request));
  reply->mutable_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
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
