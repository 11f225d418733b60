// coordinator/frontend/chat_template.h
//
// Renders a conversation as the model reads it (docs/model.md section 9).
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// Errors: INVALID_ARGUMENT naming the field: JSON that does not parse, tool
// arguments that are no object, a tool message without a tool name, text that
// is not UTF-8.
absl::StatusOr<std::vector<Segment>> RenderChat(const ChatRequest& request);

// The ids of the rendering. Errors also: FAILED_PRECONDITION: the model has no
// chat format.
absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer,
                                                const ChatRequest& request);

// How many of the ids of EncodeChat other conversations share that have the
// same tools and instructions: those before the first message that is none of
// the system's.
int64_t CountSharedTokens(const Tokenizer& tokenizer,
                          const ChatRequest& request,
                          std::span<const int32_t> ids);

}  // namespace deltafin
