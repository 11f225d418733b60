// coordinator/frontend/chat_tokens.h
//
// The control tokens of the chat format (docs/model.md sections 8 and 9).
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

inline constexpr std::string_view kOpenToken = "<|open|>";
inline constexpr std::string_view kCloseToken = "<|close|>";
inline constexpr std::string_view kSepToken = "<|sep|>";
inline constexpr std::string_view kEndOfMessageToken = "<|end_of_msg|>";

struct ChatTokens {
  int32_t open = 0;
  int32_t close = 0;
  int32_t sep = 0;
  int32_t end_of_message = 0;

  // Errors: FAILED_PRECONDITION: the model has no chat format.
  static absl::StatusOr<ChatTokens> Find(const Tokenizer& tokenizer);
};

}  // namespace deltafin
