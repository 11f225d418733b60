// tests/unit/coordinator/frontend/openai_request_fixture.h
//
// Requests of the OpenAI API to k3-nano.
#pragma once

#include <string>

#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_request.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {

inline OpenAiModel NanoModel(int64_t context_tokens = 300) {
  return {"nano", "fp", absl::UnixEpoch(), context_tokens, 3840};
}

// A request for one user message, with further members: ",\"n\":2".
inline absl::StatusOr<OpenAiRequest> Chat(const std::string& more) {
  return ParseChatCompletion(
      R"({"model":"nano","messages":[{"role":"user","content":"Hi"}])" + more +
          "}",
      NanoTokenizer(), NanoModel());
}

inline absl::StatusOr<OpenAiRequest> Complete(const std::string& more) {
  return ParseCompletion(R"({"model":"nano","prompt":"Hi")" + more + "}",
                         NanoTokenizer(), NanoModel());
}

inline std::string ParamOf(const absl::Status& status) {
  return ToOpenAiError(status).param;
}

}  // namespace deltafin
