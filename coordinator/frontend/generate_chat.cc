// ParseChat: the wire's chat, field by field.

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/generate_request.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

template <typename T>
using Names = std::initializer_list<std::pair<const char*, T>>;

// The value named `name`. Errors: INVALID_ARGUMENT listing the names.
template <typename T>
absl::StatusOr<T> FromName(const std::string& name, Names<T> names,
                           std::string_view field) {
  std::string accepted;
  for (const auto& [known, value] : names) {
    if (name == known) return value;
    if (*known == '\0') continue;
    accepted += accepted.empty() ? known : std::string(", ") + known;
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: \"{}\" is not one of {}", field, name, accepted));
}

absl::StatusOr<ChatMessage> ParseMessage(const v1::ChatMessage& wire) {
  ChatMessage message;
  ASSIGN_OR_RETURN(message.role,
                   FromName<ChatRole>(wire.role(),
                                      {{"system", ChatRole::kSystem},
                                       {"user", ChatRole::kUser},
                                       {"assistant", ChatRole::kAssistant},
                                       {"tool", ChatRole::kTool}},
                                      "role"));
  if (!wire.content().empty()) message.content.push_back(wire.content());
  for (const std::string& part : wire.content_parts()) {
    message.content.push_back(part);
  }
  message.name = wire.name();
  message.reasoning = wire.reasoning_content();
  message.tool_call_id = wire.tool_call_id();
  message.tool = wire.tool();
  message.tools_json = wire.tools_json();
  for (const v1::ToolCall& call : wire.tool_calls()) {
    message.tool_calls.push_back(
        {call.id(), call.name(), call.arguments_json()});
  }
  return message;
}

absl::Status ParseFormat(const v1::Chat& chat, ChatRequest& request) {
  ASSIGN_OR_RETURN(
      request.response_format,
      FromName<ResponseFormat>(chat.response_format(),
                               {{"", ResponseFormat::kText},
                                {"text", ResponseFormat::kText},
                                {"json_object", ResponseFormat::kJsonObject},
                                {"json_schema", ResponseFormat::kJsonSchema}},
                               "chat.response_format"));
  request.response_schema_json = chat.response_schema_json();
  if (request.response_format != ResponseFormat::kJsonSchema &&
      !request.response_schema_json.empty()) {
    return absl::InvalidArgumentError(
        "chat.response_schema_json: needs response_format json_schema");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatRequest> ParseChat(const v1::Chat& chat) {
  if (chat.messages().empty()) {
    return absl::InvalidArgumentError("chat.messages: empty");
  }
  ChatRequest request;
  for (int i = 0; i < chat.messages_size(); ++i) {
    auto message = ParseMessage(chat.messages(i));
    if (!message.ok()) {
      return AddContext(message.status(), fmt::format("chat.messages[{}]", i));
    }
    request.messages.push_back(*std::move(message));
  }
  ASSIGN_OR_RETURN(request.thinking,
                   FromName<Thinking>(chat.thinking(),
                                      {{"", Thinking::kMax},
                                       {"low", Thinking::kLow},
                                       {"high", Thinking::kHigh},
                                       {"max", Thinking::kMax},
                                       {"on", Thinking::kUnstated},
                                       {"off", Thinking::kOff}},
                                      "chat.thinking"));
  request.tools_json = chat.tools_json();
  ASSIGN_OR_RETURN(request.tool_choice,
                   FromName<ToolChoice>(chat.tool_choice(),
                                        {{"", ToolChoice::kAuto},
                                         {"auto", ToolChoice::kAuto},
                                         {"required", ToolChoice::kRequired},
                                         {"none", ToolChoice::kNone}},
                                        "chat.tool_choice"));
  request.tool_name = chat.tool_name();
  request.parallel_tool_calls = !chat.one_tool_call();
  if (request.tool_choice != ToolChoice::kRequired &&
      !chat.tool_name().empty()) {
    return absl::InvalidArgumentError(
        "chat.tool_name: needs tool_choice required");
  }
  RETURN_IF_ERROR(ParseFormat(chat, request));
  return request;
}

}  // namespace deltafin
