// coordinator/frontend/openai_response_input.h
//
// Conversation and tools as /v1/responses has them. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

// Text, or an array of messages, reasoning, function calls and their outputs;
// neighbouring items of the assistant are one message. Errors of both:
// INVALID_ARGUMENT by FieldError.
absl::StatusOr<std::vector<ChatMessage>> ReadResponseInput(
    const JsonValue& input);

// The declarations in the form that the chat template takes; "" for none.
absl::StatusOr<std::string> ReadResponseTools(const JsonValue& array);

}  // namespace deltafin
