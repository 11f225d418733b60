#include "coordinator/frontend/text_sink.h"

#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/chat_tokens.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<TextSink>> TextSink::Create(
    const Tokenizer& tokenizer, TextSinkOptions options,
    TextCallbacks callbacks) {
  ASSIGN_OR_RETURN(StopMatcher stop,
                   StopMatcher::Create(std::move(options.stop)));
  std::unique_ptr<TextSink> sink(
      new TextSink(tokenizer, std::move(stop), std::move(callbacks)));
  if (options.chat) {
    ASSIGN_OR_RETURN(const ChatTokens tokens, ChatTokens::Find(tokenizer));
    sink->parser_.emplace(tokenizer.vocabulary(), tokens, *options.chat);
  }
  return sink;
}

TextSink::TextSink(const Tokenizer& tokenizer, StopMatcher stop,
                   TextCallbacks callbacks)
    : detokenizer_(tokenizer.vocabulary()),
      stop_(std::move(stop)),
      callbacks_(std::move(callbacks)) {}

// What the token adds, before stop strings are looked for.
ParsedText TextSink::Text(int32_t id) {
  if (parser_) return parser_->Add(id);
  return {detokenizer_.Add(id), "", {}, OutputPart::kContent};
}

ParsedText TextSink::Rest(FinishReason reason) {
  if (!parser_) return {detokenizer_.Flush(), "", {}, OutputPart::kContent};
  return parser_->Finish(reason == FinishReason::kStop ? OutputEnd::kComplete
                                                       : OutputEnd::kCut);
}

SinkAction TextSink::OnToken(const TokenEvent& event) {
  const ParsedText text = Text(event.id);
  const std::string content = stop_.Add(text.content);
  callbacks_.on_delta({&event, content, text.reasoning, text.calls, text.part});
  return stop_.matched() ? SinkAction::kStop : SinkAction::kContinue;
}

void TextSink::OnLogits(int64_t position, std::span<const float> logits) {
  if (callbacks_.on_logits) callbacks_.on_logits(position, logits);
}

void TextSink::OnFinish(const RequestResult& result) {
  const ParsedText rest = Rest(result.finish_reason);
  const std::string content = stop_.Add(rest.content) + stop_.Flush();
  if (!content.empty() || !rest.reasoning.empty() || !rest.calls.empty()) {
    callbacks_.on_delta({nullptr, content, rest.reasoning, rest.calls});
  }
  std::vector<ToolCall> calls;
  if (parser_) calls = parser_->tool_calls();
  callbacks_.on_finish(result, std::move(calls));
}

}  // namespace deltafin
