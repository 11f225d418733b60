// ParseChatCompletion: the fields of /v1/chat/completions.

#include <limits>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/frontend/openai_conversation.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_format.h"
#include "coordinator/frontend/openai_messages.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/openai_shared_fields.h"

namespace deltafin {
namespace {

constexpr double kMaxInt = std::numeric_limits<int>::max();

absl::Status ReadModalities(const JsonValue& value,
                            OpenAiRequest& /*request*/) {
  const bool is_text = value.items.size() == 1 &&
                       value.items[0].kind == JsonValue::Kind::kString &&
                       value.items[0].text == "text";
  if (is_text) return absl::OkStatus();
  return NotSupported("modalities", "only [\"text\"] is supported");
}

absl::Status ReadServiceTier(const JsonValue& value,
                             OpenAiRequest& /*request*/) {
  if (value.text == "auto" || value.text == "default") return absl::OkStatus();
  return NotSupported("service_tier", "only auto and default are supported");
}

constexpr auto kNull = NullMeans::kAbsent;
constexpr auto kNoNull = NullMeans::kError;

constexpr OpenAiField kFields[] = {
    {"messages", FieldType::kArray, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) -> absl::Status {
       ASSIGN_OR_RETURN(request.chat.messages, ReadMessages(value, "messages"));
       return absl::OkStatus();
     }},
    {"max_tokens", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.max_tokens = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     1, kMaxInt},
    {"max_completion_tokens", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.max_completion_tokens = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     1, kMaxInt},
    {"logprobs", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.want_logprobs = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"top_logprobs", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.generation.top_logprobs = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     0, kMaxTopLogprobs},
    {"reasoning_effort", FieldType::kString, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       return ReadEffort(value.text, "reasoning_effort", request);
     }},
    {"tools", FieldType::kArray, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) -> absl::Status {
       ASSIGN_OR_RETURN(request.chat.tools_json, ReadTools(value, "tools"));
       return absl::OkStatus();
     }},
    {"tool_choice", FieldType::kAny, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       return ReadToolChoice(value, ObjectStyle::kNested, request);
     }},
    {"parallel_tool_calls", FieldType::kBoolean, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.chat.parallel_tool_calls = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"response_format", FieldType::kObject, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       return ReadResponseFormat(value, "response_format", ObjectStyle::kNested,
                                 request);
     }},
    {"modalities", FieldType::kArray, kNull, ReadModalities},
    {"service_tier", FieldType::kString, kNull, ReadServiceTier},
    {"audio", FieldType::kAny, kNull},
    {"function_call", FieldType::kAny, kNoNull},
    {"functions", FieldType::kAny, kNoNull},
    {"moderation", FieldType::kAny, kNull},
    {"prediction", FieldType::kAny, kNull},
    {"verbosity", FieldType::kAny, kNull},
    {"web_search_options", FieldType::kAny, kNoNull},
};

// A field makes no sense beside another one.
absl::Status CheckTogether(const OpenAiRequest& request,
                           const JsonValue& body) {
  if (request.max_tokens && request.max_completion_tokens &&
      *request.max_tokens != *request.max_completion_tokens) {
    return FieldError("max_tokens", "contradicts max_completion_tokens");
  }
  if (request.generation.top_logprobs > 0 &&
      !request.generation.want_logprobs) {
    return FieldError("top_logprobs", "needs logprobs: true");
  }
  if (request.chat.tools_json.empty() &&
      body.Find("parallel_tool_calls") != nullptr) {
    return FieldError("parallel_tool_calls", "needs tools");
  }
  return absl::OkStatus();
}

}  // namespace

OpenAiFields ChatFields() { return kFields; }

absl::StatusOr<OpenAiRequest> ParseChatCompletion(std::string_view body,
                                                  const Tokenizer& tokenizer,
                                                  const OpenAiModel& model) {
  const ConversationForm form = {kFields, "messages", "response_format",
                                 ObjectStyle::kNested, CheckTogether};
  return ParseConversation(form, body, tokenizer, model);
}

}  // namespace deltafin
