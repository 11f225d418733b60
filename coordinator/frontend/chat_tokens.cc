#include "coordinator/frontend/chat_tokens.h"

#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<ChatTokens> ChatTokens::Find(const Tokenizer& tokenizer) {
  ChatTokens tokens;
  ASSIGN_OR_RETURN(tokens.open, tokenizer.ControlId(kOpenToken));
  ASSIGN_OR_RETURN(tokens.close, tokenizer.ControlId(kCloseToken));
  ASSIGN_OR_RETURN(tokens.sep, tokenizer.ControlId(kSepToken));
  ASSIGN_OR_RETURN(tokens.end_of_message,
                   tokenizer.ControlId(kEndOfMessageToken));
  return tokens;
}

}  // namespace deltafin
