#include "coordinator/frontend/generate_reply.h"

#include <span>
#include <string>

#include "absl/time/time.h"

namespace deltafin {
namespace {

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

void AddTop(std::span<const TokenLogprob> top, v1::GenerateReply& reply) {
  for (const TokenLogprob& alternative : top) {
    v1::TokenLogprob* wire = reply.add_top_logprobs();
    wire->set_id(alternative.id);
    wire->set_logprob(alternative.logprob);
  }
}

}  // namespace

v1::GenerateReply TokenReply(const TextDelta& delta) {
  v1::GenerateReply reply;
  reply.set_text_delta(std::string(delta.content));
  reply.set_reasoning_delta(std::string(delta.reasoning));
  for (const ToolCallDelta& call : delta.calls) {
    v1::ToolCallDelta* wire = reply.add_tool_call_deltas();
    wire->set_index(call.index);
    wire->set_begins(call.begins);
    wire->set_name(call.name);
    wire->set_arguments_json(call.arguments);
  }
  if (delta.token == nullptr) return reply;
  reply.set_has_token(true);
  reply.set_id(delta.token->id);
  reply.set_logprob(delta.token->logprob);
  AddTop(delta.token->top_logprobs, reply);
  return reply;
}

v1::GenerateReply PromptTokenReply(int32_t id, const Logprobs& scores) {
  v1::GenerateReply reply;
  reply.set_has_prompt_token(true);
  reply.set_id(id);
  reply.set_logprob(scores.chosen);
  AddTop(scores.top, reply);
  return reply;
}

v1::GenerateReply LastReply(const RequestResult& result,
                            const std::vector<ToolCall>& calls,
                            int reasoning_tokens) {
  v1::GenerateReply reply;
  reply.set_finish_reason(FinishReasonName(result.finish_reason));
  reply.set_request_id(result.id);
  v1::Usage* usage = reply.mutable_usage();
  usage->set_prompt_tokens(result.usage.prompt_tokens);
  usage->set_completion_tokens(result.usage.completion_tokens);
  usage->set_cached_prompt_tokens(result.usage.cached_tokens);
  usage->set_reasoning_tokens(reasoning_tokens);
  v1::Timings* timings = reply.mutable_timings();
  timings->set_queue_seconds(absl::ToDoubleSeconds(result.timings.queue));
  timings->set_prefill_seconds(absl::ToDoubleSeconds(result.timings.prefill));
  timings->set_decode_seconds(absl::ToDoubleSeconds(result.timings.decode));
  for (const ToolCall& call : calls) {
    v1::ToolCall* wire = reply.add_tool_calls();
    wire->set_id(call.id);
    wire->set_name(call.name);
    wire->set_arguments_json(call.arguments_json);
  }
  return reply;
}

}  // namespace deltafin
