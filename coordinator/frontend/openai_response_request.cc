// ParseResponseRequest: the fields of /v1/responses.

#include <limits>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/openai_conversation.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_format.h"
#include "coordinator/frontend/openai_object.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/openai_response_input.h"
#include "coordinator/frontend/openai_shared_fields.h"

namespace deltafin {
namespace {

constexpr double kMaxInt = std::numeric_limits<int>::max();

absl::Status ReadReasoning(const JsonValue& value, OpenAiRequest& request) {
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, "reasoning"));
  RETURN_IF_ERROR(object.RequireEmpty("summary"));
  RETURN_IF_ERROR(object.RequireEmpty("generate_summary"));
  std::string effort;
  const bool has_effort = object.Find("effort") != nullptr;
  RETURN_IF_ERROR(object.ReadString("effort", effort));
  RETURN_IF_ERROR(object.RefuseOthers());
  if (!has_effort) return absl::OkStatus();
  return ReadEffort(effort, "reasoning.effort", request);
}

absl::Status ReadText(const JsonValue& value, OpenAiRequest& request) {
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, "text"));
  const JsonValue* format = object.Find("format");
  RETURN_IF_ERROR(object.RequireEmpty("verbosity"));
  RETURN_IF_ERROR(object.RefuseOthers());
  if (format == nullptr) return absl::OkStatus();
  return ReadResponseFormat(*format, "text.format", ObjectStyle::kFlat,
                            request);
}

constexpr auto kNull = NullMeans::kAbsent;
constexpr auto kNoNull = NullMeans::kError;

constexpr OpenAiField kFields[] = {
    {"input", FieldType::kAny, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) -> absl::Status {
       ASSIGN_OR_RETURN(request.chat.messages, ReadResponseInput(value));
       return absl::OkStatus();
     }},
    {"instructions", FieldType::kString, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.instructions = value.text;
       return absl::OkStatus();
     }},
    {"max_output_tokens", FieldType::kInteger, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.max_tokens = static_cast<int>(IntegerOf(value));
       return absl::OkStatus();
     },
     1, kMaxInt},
    {"reasoning", FieldType::kObject, kNull, ReadReasoning},
    {"text", FieldType::kObject, kNoNull, ReadText},
    {"tools", FieldType::kArray, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) -> absl::Status {
       ASSIGN_OR_RETURN(request.chat.tools_json, ReadResponseTools(value));
       request.response_tools_json = DumpJson(value);
       return absl::OkStatus();
     }},
    {"tool_choice", FieldType::kAny, kNoNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       return ReadToolChoice(value, ObjectStyle::kFlat, request);
     }},
    {"parallel_tool_calls", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& request) {
       request.chat.parallel_tool_calls = BooleanOf(value);
       return absl::OkStatus();
     }},
    {"truncation", FieldType::kString, kNull,
     [](const JsonValue& value, OpenAiRequest& /*request*/) -> absl::Status {
       if (value.text == "disabled") return absl::OkStatus();
       return NotSupported("truncation", "only disabled is supported");
     }},
    {"background", FieldType::kBoolean, kNull,
     [](const JsonValue& value, OpenAiRequest& /*request*/) -> absl::Status {
       if (!BooleanOf(value)) return absl::OkStatus();
       return NotSupported("background", "only false is supported");
     }},
    {"n", FieldType::kAny, kNoNull},
    {"conversation", FieldType::kAny, kNull},
    {"include", FieldType::kAny, kNull},
    {"max_tool_calls", FieldType::kAny, kNull},
    {"previous_response_id", FieldType::kAny, kNull},
    {"prompt", FieldType::kAny, kNull},
    {"service_tier", FieldType::kAny, kNull},
    {"top_logprobs", FieldType::kAny, kNull},
};

absl::Status CheckTogether(const OpenAiRequest& request,
                           const JsonValue& /*body*/) {
  const StreamOptions options =
      request.stream_options.value_or(StreamOptions());
  if (options.include_usage || options.empty_delta) {
    return NotSupported("stream_options",
                        "responses always end with their usage, and have no "
                        "empty event");
  }
  return absl::OkStatus();
}

}  // namespace

OpenAiFields ResponseFields() { return kFields; }

absl::StatusOr<OpenAiRequest> ParseResponseRequest(std::string_view body,
                                                   const Tokenizer& tokenizer,
                                                   const OpenAiModel& model) {
  const ConversationForm form = {kFields, "input", "text.format",
                                 ObjectStyle::kFlat, CheckTogether};
  return ParseConversation(form, body, tokenizer, model);
}

}  // namespace deltafin
