// coordinator/frontend/openai_request.h
//
// Reads the bodies of the OpenAI API's generating endpoints. docs/http_api.md
// lists every field and its range. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/engine/request.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/text_sink.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// The model as the API shows it.
struct OpenAiModel {
  std::string name;
  // Names model and spine: what the text depends on besides the request.
  std::string fingerprint;
  absl::Time created;
  int64_t context_tokens = 0;
  int32_t bos_token_id = 0;
};

// Answers of one request; each takes a place in the scheduler.
inline constexpr int kMaxChoices = 128;

struct StreamOptions {
  bool include_usage = false;
  // Keep-alives are events with an empty delta instead of comments.
  bool empty_delta = false;
  // How long the stream can be resumed after its client went. Zero: not.
  absl::Duration resumable;
};

// /v1/completions: text, or the ids themselves.
struct CompletionPrompt {
  std::string text;
  std::optional<std::vector<int32_t>> ids;
};

struct OpenAiRequest {
  std::string model;
  ChatRequest chat;
  std::vector<CompletionPrompt> completion_prompts;
  bool add_special_tokens = false;  // texts of completions begin with BOS
  bool echo = false;                // completions repeat their prompt
  std::string instructions;         // responses: a system message
  std::string response_tools_json;  // responses: the declarations, as given

  std::string response_schema_name;
  std::string response_schema_description;
  // What the answers are held to; null: nothing.
  std::shared_ptr<const ByteGrammar> grammar;

  // Token ids; each is answered num_choices times.
  std::vector<std::vector<int32_t>> prompts;
  int num_choices = 1;
  // Of every choice; without prompt, choice and deadline.
  GenerationRequest generation;
  TextSinkOptions text;
  std::optional<int> max_tokens;
  std::optional<int> max_completion_tokens;
  // From submitting on.
  absl::Duration timeout = absl::InfiniteDuration();

  bool stream = false;
  std::optional<StreamOptions> stream_options;
};

// Errors of all, by FieldError: INVALID_ARGUMENT naming the field that is
// unknown, of a wrong type, out of range, without effect here or missing;
// NOT_FOUND for another model; FAILED_PRECONDITION: the model has no chat
// format.
absl::StatusOr<OpenAiRequest> ParseChatCompletion(std::string_view body,
                                                  const Tokenizer& tokenizer,
                                                  const OpenAiModel& model);
absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body,
                                              const Tokenizer& tokenizer,
                                              const OpenAiModel& model);
absl::StatusOr<OpenAiRequest> ParseResponseRequest(std::string_view body,
                                                   const Tokenizer& tokenizer,
                                                   const OpenAiModel& model);

}  // namespace deltafin
