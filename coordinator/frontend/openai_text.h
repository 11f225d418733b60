// coordinator/frontend/openai_text.h
//
// /tokenize and /detokenize: what text and ids are of each other. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// The answers' bodies. Errors: as those of ParseChatCompletion.
absl::StatusOr<std::string> TokenizeJson(std::string_view body,
                                         const Tokenizer& tokenizer,
                                         const OpenAiModel& model);
absl::StatusOr<std::string> DetokenizeJson(std::string_view body,
                                           const Tokenizer& tokenizer,
                                           const OpenAiModel& model);

}  // namespace deltafin
