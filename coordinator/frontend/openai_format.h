// coordinator/frontend/openai_format.h
//
// What a chat's answer is held to: response_format and tool_choice, in the
// forms of both of the API's chat endpoints. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/python_json.h"

namespace deltafin {

// How an endpoint writes objects that have a name: {"type": "function",
// "function": {"name": ...}}, or the members beside the type.
enum class ObjectStyle : uint8_t { kNested, kFlat };

// Errors of all: INVALID_ARGUMENT by FieldError.

// `value` is the member `field`.
absl::Status ReadResponseFormat(const JsonValue& value, std::string_view field,
                                ObjectStyle style, OpenAiRequest& request);
absl::Status ReadToolChoice(const JsonValue& value, ObjectStyle style,
                            OpenAiRequest& request);

// After all fields: makes the request's grammar, where it asks for one.
absl::Status MakeGrammar(std::string_view format_field, ObjectStyle style,
                         OpenAiRequest& request);

// As /v1/responses tells the format and the choice: JSON.
std::string FormatJson(const OpenAiRequest& request);
std::string ToolChoiceJson(const OpenAiRequest& request);

}  // namespace deltafin
