// coordinator/frontend/text_sink.h
//
// Between the engine and whoever reads: a TokenSink that turns token ids into
// text, splits chat output into its channels and watches for stop strings.
// Used by the engine thread alone, like every TokenSink.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/request.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/detokenizer.h"
#include "coordinator/frontend/output_parser.h"
#include "coordinator/frontend/stop_matcher.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

struct TextSinkOptions {
  // The element that the prompt's last tokens opened: InitialChannel() of the
  // chat request. nullopt: no chat; all tokens are content, control tokens by
  // their spelling, so that the content is Tokenizer::Decode of the ids.
  std::optional<OutputChannel> chat;
  // Content ends before the first of these; reasoning is not searched.
  // Non-empty UTF-8, at most kMaxStopStrings.
  std::vector<std::string> stop;
};

// What one token added: whole characters. A token may add nothing, or text that
// earlier ones began. Valid during the call.
struct TextDelta {
  const TokenEvent* token = nullptr;  // null: the rest, at the end
  std::string_view content;
  std::string_view reasoning;
  std::span<const ToolCallDelta> calls;
  // What the token is part of; kContent outside of chat.
  OutputPart part = OutputPart::kStructure;
};

struct TextCallbacks {
  std::function<void(const TextDelta&)> on_delta;  // once per token, in order
  std::function<void(int64_t position, std::span<const float> logits)>
      on_logits;  // may be empty
  // Last call of all. `tool_calls`: those the model completed.
  std::function<void(const RequestResult&, std::vector<ToolCall> tool_calls)>
      on_finish;
};

class TextSink : public TokenSink {
 public:
  // `tokenizer` must outlive the sink. Errors: INVALID_ARGUMENT (a stop string
  // is empty, not UTF-8 or one too many), FAILED_PRECONDITION (the model has no
  // chat format).
  static absl::StatusOr<std::unique_ptr<TextSink>> Create(
      const Tokenizer& tokenizer, TextSinkOptions options,
      TextCallbacks callbacks);

  SinkAction OnToken(const TokenEvent& event) override;
  void OnLogits(int64_t position, std::span<const float> logits) override;
  void OnFinish(const RequestResult& result) override;

 private:
  TextSink(const Tokenizer& tokenizer, StopMatcher stop,
           TextCallbacks callbacks);

  ParsedText Text(int32_t id);
  ParsedText Rest(FinishReason reason);

  Detokenizer detokenizer_;             // outside of chat
  std::optional<OutputParser> parser_;  // in chat
  StopMatcher stop_;
  const TextCallbacks callbacks_;
};

}  // namespace deltafin
