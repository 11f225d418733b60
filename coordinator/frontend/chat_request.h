// coordinator/frontend/chat_request.h
//
// A conversation to be rendered for the model (docs/model.md section 9). JSON
// values travel as their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace deltafin {

enum class ChatRole : uint8_t { kSystem, kUser, kAssistant, kTool };

// How much the model is told to think. kUnstated: it thinks, and is told
// nothing.
enum class Thinking : uint8_t { kOff, kUnstated, kLow, kHigh, kMax };

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired };

enum class ResponseFormat : uint8_t { kText, kJsonObject, kJsonSchema };

struct ToolCall {
  std::string id;
  std::string name;
  // A JSON object. In a prompt: blank is {}, and text that is no JSON is passed
  // on as it stands.
  std::string arguments_json;
};

// Empty strings are absent.
struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::vector<std::string> content;  // text parts, each tokenized on its own
  std::string name;
  std::string reasoning;             // kAssistant
  std::vector<ToolCall> tool_calls;  // kAssistant
  std::string tool_call_id;          // kTool: the call this answers
  std::string tool;                  // kTool: the tool's name
  std::string tools_json;  // kSystem: further tools, instead of content
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::string tools_json;  // array of declarations; empty: none
  Thinking thinking = Thinking::kMax;
  ToolChoice tool_choice = ToolChoice::kAuto;
  ResponseFormat response_format = ResponseFormat::kText;
  std::string response_schema_json;  // kJsonSchema
  std::string tool_name;  // kRequired: the one to be called; empty: any
  bool parallel_tool_calls = true;  // several calls in one message
  // Whether the rendering ends by opening the assistant's answer.
  bool generation_prompt = true;
};

// Errors: INVALID_ARGUMENT naming the field and byte that is not UTF-8.
absl::Status CheckChatText(const ChatRequest& request);

}  // namespace deltafin
