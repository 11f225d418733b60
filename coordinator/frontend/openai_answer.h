// coordinator/frontend/openai_answer.h
//
// What the choices of an answer wrote, and how an endpoint of the OpenAI API
// shows it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/engine/request.h"
#include "coordinator/frontend/output_parser.h"
#include "coordinator/frontend/server_sent_events.h"
#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

// A token of the text with what the model thought of it.
struct ScoredToken {
  int32_t id = 0;
  std::optional<float> logprob;   // none: the first of a prompt
  std::vector<TokenLogprob> top;  // likeliest first
};

// All that one choice wrote, or a piece of it.
struct ChoiceText {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> calls;
  std::vector<ScoredToken> tokens;  // of the content, if asked for

  bool empty() const;
  // Of the whole: one entry a call.
  void Append(const ChoiceText& piece);
};

struct Choice {
  ChoiceText text;
  FinishReason finish_reason = FinishReason::kNone;
};

struct AnswerUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, not computed anew
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;  // of the completion
};

struct AnswerIdentity {
  std::string id;  // "chatcmpl-..."
  absl::Time created;
  std::string model;
  std::string fingerprint;
};

// One answer in an endpoint's form: as events while it grows, or whole. Joined,
// the events say the same as the whole. Not thread-safe.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::vector<ServerEvent> Begin() { return {}; }
  // A piece that is not empty.
  virtual std::vector<ServerEvent> Piece(int choice,
                                         const ChoiceText& piece) = 0;
  virtual std::vector<ServerEvent> ChoiceEnd(int choice,
                                             FinishReason reason) = 0;
  virtual std::vector<ServerEvent> End(const AnswerUsage& usage) = 0;
  // Instead of what is missing.
  virtual std::vector<ServerEvent> Error(const absl::Status& status) = 0;
  // Says nothing, for clients that take comments for silence; null: the format
  // has no such event.
  virtual std::optional<ServerEvent> Nothing() const { return std::nullopt; }

  // The body of an answer that is not streamed.
  virtual std::string Whole(std::span<const Choice> choices,
                            const AnswerUsage& usage) const = 0;
};

// --- parts of several formats ---

// {"prompt_tokens": ..., ...}
std::string UsageJson(const AnswerUsage& usage);
// Its spelling; of a token that is no UTF-8 by itself "bytes:\xe2\x80".
std::string TokenText(const Vocabulary& vocabulary, int32_t id);
// {"data": {"error": ...}}
std::vector<ServerEvent> ErrorEvent(const absl::Status& status);

}  // namespace deltafin
