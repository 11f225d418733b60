// coordinator/frontend/openai_messages.h
//
// The conversation and the tools of a chat request. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

// Errors of all: INVALID_ARGUMENT by FieldError with the path below `path`.

// An array of messages; "developer" is "system".
absl::StatusOr<std::vector<ChatMessage>> ReadMessages(const JsonValue& array,
                                                      const std::string& path);

// A string, or an array of text parts.
absl::StatusOr<std::vector<std::string>> ReadTextParts(const JsonValue& content,
                                                       const std::string& path);

// An array of function declarations; returns it as the chat template takes it,
// "" for an empty array.
absl::StatusOr<std::string> ReadTools(const JsonValue& array,
                                      const std::string& path);

// Whether this is a function's name: 1 to 64 letters, digits, '_' and '-'.
bool IsFunctionName(std::string_view name);

}  // namespace deltafin
