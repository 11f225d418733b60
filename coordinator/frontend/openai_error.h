// coordinator/frontend/openai_error.h
//
// Errors as clients of the OpenAI API read them: a status code, a JSON object
// that names the field at fault. Inside they travel as absl::Status, which
// carries the field. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

// INVALID_ARGUMENT that blames a field ("messages[0].content"). `code` is a
// word for programs: "invalid_value", "unknown_parameter".
absl::Status FieldError(std::string_view field, std::string_view message,
                        std::string_view code = "invalid_value");
// For a field, or a value of it, that has no effect here.
absl::Status NotSupported(std::string_view field, std::string_view message);

// The same status, blaming `field` and with that code.
absl::Status WithField(absl::Status status, std::string_view field);
absl::Status WithCode(absl::Status status, std::string_view code);

struct OpenAiError {
  int http_status = 500;
  std::string type;  // "invalid_request_error"
  std::string code;
  std::string param;  // empty: no field is to blame
  std::string message;
};

// REQUIRES: not OK.
OpenAiError ToOpenAiError(const absl::Status& status);

// {"error": {"message", "type", "param", "code"}}.
std::string OpenAiErrorJson(const absl::Status& status);

}  // namespace deltafin
