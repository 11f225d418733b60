// coordinator/frontend/chat_wire_text.h
//
// Constants of the chat format, on which the model was trained: every byte
// counts (docs/model.md 9.1).
#pragma once

#include <string_view>

namespace deltafin {

inline constexpr std::string_view kToolsHead =
    "# Tools\n"
    "Here are the available tools, described in JSONSchema.\n"
    "\n";

inline constexpr std::string_view kMoreToolsHead =
    "## New Tools Available\n"
    "The system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\n"
    "Here are the specs for the extended tools.\n"
    "\n";

// Before and after a block of JSON.
inline constexpr std::string_view kJsonFence = "```json\n";
inline constexpr std::string_view kFence = "\n```";

// Followed by the effort and kEffortTail.
inline constexpr std::string_view kEffortHead =
    "`thinking_effort` guides on how much to think in your thinking channel "
    "(not including the response channel), supported values include `low`, "
    "`medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort=";
inline constexpr std::string_view kEffortTail = "`.";

inline constexpr std::string_view kToolChoiceRequired =
    "The system is invoked with `tool_choice=required`.\n"
    "You MUST call tools in the next message.";
inline constexpr std::string_view kToolChoiceNone =
    "The system is invoked with `tool_choice=none`.\n"
    "You MUST NOT call any tools in the next message.";

// Followed by the format's name and kFormatTail.
inline constexpr std::string_view kFormatHead =
    "The system is invoked with `response_format=";
inline constexpr std::string_view kFormatTail =
    "`.\n"
    "Your response must be raw JSON data without markdown code blocks "
    "(```json) or any additional formatting.";
// Followed by a block of JSON.
inline constexpr std::string_view kSchemaHead =
    "\nThe JSON data must match the following schema:\n";

}  // namespace deltafin
