#include "coordinator/frontend/chat_request.h"

#include <string_view>

#include "common/base/status_macros.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status CheckUtf8(std::string_view field, std::string_view text) {
  const auto at = FirstInvalidUtf8(text);
  if (!at) return absl::OkStatus();
  return AddContext(absl::InvalidArgumentError(
                        fmt::format("text is not UTF-8 at byte {}", *at)),
                    field);
}

absl::Status CheckMessage(const ChatMessage& message) {
  for (const std::string& part : message.content) {
    RETURN_IF_ERROR(CheckUtf8("content", part));
  }
  RETURN_IF_ERROR(CheckUtf8("name", message.name));
  RETURN_IF_ERROR(CheckUtf8("reasoning", message.reasoning));
  RETURN_IF_ERROR(CheckUtf8("tool", message.tool));
  RETURN_IF_ERROR(CheckUtf8("tools", message.tools_json));
  for (const ToolCall& call : message.tool_calls) {
    RETURN_IF_ERROR(CheckUtf8("tool call name", call.name));
    RETURN_IF_ERROR(CheckUtf8("tool call arguments", call.arguments_json));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckChatText(const ChatRequest& request) {
  RETURN_IF_ERROR(CheckUtf8("tools", request.tools_json));
  RETURN_IF_ERROR(CheckUtf8("response_schema", request.response_schema_json));
  for (size_t i = 0; i < request.messages.size(); ++i) {
    RETURN_IF_ERROR(AddContext(CheckMessage(request.messages[i]),
                               fmt::format("messages[{}]", i)));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
