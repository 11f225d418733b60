#include "coordinator/cli/generation.h"

#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

GenerationOutput::Logprob CopyLogprob(const TokenEvent& token) {
  return {token.id,
          token.logprob,
          {token.top_logprobs.begin(), token.top_logprobs.end()}};
}

}  // namespace

absl::StatusOr<GenerationOutput> Generation::Run(
    GenerationRequest request, TextSinkOptions text,
    GenerationCallbacks callbacks) {
  GenerationOutput output;  // the engine thread's until is_finished_
  TextCallbacks sink_callbacks;
  sink_callbacks.on_delta =
      [&output, &callbacks,
       logprobs = request.want_logprobs](const TextDelta& delta) {
        if (delta.token != nullptr) output.ids.push_back(delta.token->id);
        if (delta.token != nullptr && logprobs) {
          output.logprobs.push_back(CopyLogprob(*delta.token));
        }
        output.text += delta.content;
        output.reasoning += delta.reasoning;
        if (callbacks.on_text)
          callbacks.on_text(delta.content, delta.reasoning);
      };
  sink_callbacks.on_logits = callbacks.on_logits;
  sink_callbacks.on_finish = [this, &output](const RequestResult& result,
                                             std::vector<ToolCall> calls) {
    output.result = result;
    output.tool_calls = std::move(calls);
    MutexLock lock(mutex_);
    is_finished_ = true;
    finished_.NotifyAll();
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> sink,
                   TextSink::Create(coordinator_.tokenizer(), std::move(text),
                                    std::move(sink_callbacks)));
  MutexLock lock(mutex_);
  is_finished_ = false;
  ASSIGN_OR_RETURN(running_, coordinator_.scheduler().Submit(std::move(request),
                                                             sink.get()));
  while (!is_finished_) finished_.Wait(mutex_);
  running_.reset();
  RETURN_IF_ERROR(output.result.status);
  return output;
}

bool Generation::Cancel() {
  MutexLock lock(mutex_);
  if (!running_.has_value()) return false;
  coordinator_.scheduler().Cancel(*running_);
  return true;
}

}  // namespace deltafin
