#include "coordinator/frontend/openai_conversation.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_shared_fields.h"

namespace deltafin {
namespace {

constexpr OpenAiField kFields[] = {
    {"store", FieldType::kBoolean, NullMeans::kAbsent,
     [](const JsonValue& value, OpenAiRequest& /*request*/) -> absl::Status {
       if (!BooleanOf(value)) return absl::OkStatus();
       return NotSupported("store", "nothing is stored; only false is so");
     }},
    {"metadata", FieldType::kAny, NullMeans::kAbsent},
    {"prompt_cache_retention", FieldType::kAny, NullMeans::kAbsent},
};

absl::Status CheckConversation(const ConversationForm& form,
                               const OpenAiRequest& request,
                               const JsonValue& body) {
  if (request.chat.messages.empty()) {
    return FieldError(form.messages_field, "missing",
                      "missing_required_parameter");
  }
  if (request.chat.tools_json.empty() && body.Find("tool_choice") != nullptr) {
    return FieldError("tool_choice", "needs tools");
  }
  return form.check(request, body);
}

void AddInstructions(OpenAiRequest& request) {
  if (request.instructions.empty()) return;
  ChatMessage instructions;
  instructions.role = ChatRole::kSystem;
  instructions.content = {request.instructions};
  request.chat.messages.insert(request.chat.messages.begin(),
                               std::move(instructions));
}

// Renders the chat into the request's prompt and settles its length.
absl::Status EncodePrompt(const Tokenizer& tokenizer, const OpenAiModel& model,
                          std::string_view field, OpenAiRequest& request) {
  AddInstructions(request);
  request.generation.max_new_tokens = request.max_completion_tokens.value_or(
      request.max_tokens.value_or(std::numeric_limits<int>::max()));
  request.text.chat = InitialChannel(request.chat.thinking);
  absl::StatusOr<std::vector<int32_t>> ids =
      EncodeChat(tokenizer, request.chat);
  if (!ids.ok()) return WithField(ids.status(), field);
  request.prompts.push_back(*std::move(ids));
  return CheckPrompts(request, model, field);
}

}  // namespace

OpenAiFields ConversationFields() { return kFields; }

absl::StatusOr<OpenAiRequest> ParseConversation(const ConversationForm& form,
                                                std::string_view body,
                                                const Tokenizer& tokenizer,
                                                const OpenAiModel& model) {
  OpenAiRequest request;
  ASSIGN_OR_RETURN(const JsonValue object, ParseBody(body));
  RETURN_IF_ERROR(ReadFields(
      {form.fields, ConversationFields(), SharedFields()}, object, request));
  RETURN_IF_ERROR(CheckConversation(form, request, object));
  RETURN_IF_ERROR(CheckShared(request, tokenizer.vocabulary().size(), model));
  RETURN_IF_ERROR(MakeGrammar(form.format_field, form.style, request));
  RETURN_IF_ERROR(EncodePrompt(tokenizer, model, form.messages_field, request));
  return request;
}

absl::Status ReadEffort(const std::string& effort, std::string_view field,
                        OpenAiRequest& request) {
  constexpr std::pair<std::string_view, Thinking> kEfforts[] = {
      {"none", Thinking::kOff},
      {"low", Thinking::kLow},
      {"high", Thinking::kHigh},
      {"max", Thinking::kMax}};
  for (const auto& [name, thinking] : kEfforts) {
    if (effort != name) continue;
    request.chat.thinking = thinking;
    return absl::OkStatus();
  }
  return NotSupported(field, "the model knows none, low, high and max");
}

}  // namespace deltafin
