// coordinator/frontend/tool_results.h
//
// Puts tool results in the order of the calls they answer (docs/model.md
// section 9). Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "coordinator/frontend/chat_request.h"

namespace deltafin {

// The same messages, where each run of tool messages that all answer a call of
// the assistant message before them is sorted by the call's position and takes
// the call's name; other runs stay as they are.
std::vector<ChatMessage> OrderToolResults(
    std::span<const ChatMessage> messages);

}  // namespace deltafin
