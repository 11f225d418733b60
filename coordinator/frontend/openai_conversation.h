// coordinator/frontend/openai_conversation.h
//
// What /v1/chat/completions and /v1/responses have in common: requests for the
// next message of a conversation. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/frontend/openai_fields.h"
#include "coordinator/frontend/openai_format.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// How an endpoint spells a conversation.
struct ConversationForm {
  OpenAiFields fields;              // of the endpoint alone
  std::string_view messages_field;  // where the conversation stands
  std::string_view format_field;    // where the answer's format stands
  ObjectStyle style = ObjectStyle::kNested;
  // After all fields: whether they go together. Errors: INVALID_ARGUMENT by
  // FieldError.
  absl::Status (*check)(const OpenAiRequest& request,
                        const JsonValue& body) = nullptr;
};

// Fields of both endpoints, besides SharedFields.
OpenAiFields ConversationFields();

// Errors: as those of ParseChatCompletion.
absl::StatusOr<OpenAiRequest> ParseConversation(const ConversationForm& form,
                                                std::string_view body,
                                                const Tokenizer& tokenizer,
                                                const OpenAiModel& model);

// `field` holds the word. Errors: INVALID_ARGUMENT by FieldError.
absl::Status ReadEffort(const std::string& effort, std::string_view field,
                        OpenAiRequest& request);

}  // namespace deltafin
