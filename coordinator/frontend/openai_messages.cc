#include "coordinator/frontend/openai_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_object.h"
#include "coordinator/frontend/openai_open_calls.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxFunctionName = 64;

absl::StatusOr<ChatRole> RoleOf(const std::string& name,
                                const std::string& path) {
  if (name == "user") return ChatRole::kUser;
  if (name == "assistant") return ChatRole::kAssistant;
  if (name == "tool") return ChatRole::kTool;
  if (name == "system" || name == "developer") return ChatRole::kSystem;
  return FieldError(path,
                    "expected system, developer, user, assistant or tool");
}

absl::Status RequireFunctionType(ObjectReader& object) {
  std::string type;
  RETURN_IF_ERROR(object.RequireString("type", type));
  if (type == "function") return absl::OkStatus();
  return NotSupported(object.PathOf("type"), "only function is supported");
}

// The official client sends back the value of the arguments beside their text
// where it parsed them itself. The model reads the text.
constexpr char kParsedByTheClient[] = "parsed_arguments";

absl::StatusOr<ToolCall> ReadCall(const JsonValue& value,
                                  const std::string& path) {
  ToolCall call;
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, path));
  RETURN_IF_ERROR(RequireFunctionType(object));
  RETURN_IF_ERROR(object.RequireString("id", call.id));
  ASSIGN_OR_RETURN(const JsonValue* body,
                   object.Require("function", FieldType::kObject));
  RETURN_IF_ERROR(object.RefuseOthers());
  ASSIGN_OR_RETURN(ObjectReader function,
                   ObjectReader::Open(*body, object.PathOf("function")));
  RETURN_IF_ERROR(function.RequireString("name", call.name));
  RETURN_IF_ERROR(function.RequireString("arguments", call.arguments_json));
  function.Find(kParsedByTheClient);
  RETURN_IF_ERROR(function.RefuseOthers());
  return call;
}

absl::Status ReadAssistant(ObjectReader& object, ChatMessage& message) {
  RETURN_IF_ERROR(object.ReadString("name", message.name));
  RETURN_IF_ERROR(object.ReadString("reasoning_content", message.reasoning));
  for (const char* name :
       {"refusal", "audio", "annotations", "function_call"}) {
    RETURN_IF_ERROR(object.RequireEmpty(name));
  }
  object.Find("parsed");  // likewise, beside the content
  const JsonValue* calls = object.Find("tool_calls");
  if (calls == nullptr) return absl::OkStatus();
  const std::string path = object.PathOf("tool_calls");
  RETURN_IF_ERROR(RequireType(*calls, FieldType::kArray, path));
  for (size_t i = 0; i < calls->items.size(); ++i) {
    ASSIGN_OR_RETURN(ToolCall call,
                     ReadCall(calls->items[i], fmt::format("{}[{}]", path, i)));
    message.tool_calls.push_back(std::move(call));
  }
  return absl::OkStatus();
}

absl::Status ReadContent(ObjectReader& object, ChatMessage& message) {
  const JsonValue* content = object.Find("content");
  const std::string path = object.PathOf("content");
  if (content == nullptr) {
    if (message.role == ChatRole::kAssistant) return absl::OkStatus();
    return FieldError(path, "missing", "missing_required_parameter");
  }
  ASSIGN_OR_RETURN(message.content, ReadTextParts(*content, path));
  return absl::OkStatus();
}

absl::StatusOr<ChatMessage> ReadMessage(const JsonValue& value,
                                        const std::string& path) {
  ChatMessage message;
  std::string role;
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, path));
  RETURN_IF_ERROR(object.RequireString("role", role));
  ASSIGN_OR_RETURN(message.role, RoleOf(role, object.PathOf("role")));
  RETURN_IF_ERROR(ReadContent(object, message));
  if (message.role == ChatRole::kAssistant) {
    RETURN_IF_ERROR(ReadAssistant(object, message));
  } else {
    RETURN_IF_ERROR(object.ReadString("name", message.name));
  }
  if (message.role == ChatRole::kTool) {
    RETURN_IF_ERROR(object.RequireString("tool_call_id", message.tool_call_id));
  }
  RETURN_IF_ERROR(object.RefuseOthers());
  return message;
}

// A result that names its tool may stand without its call.
absl::Status CheckCalls(const ChatMessage& message, const std::string& path,
                        OpenCalls& calls) {
  if (message.role == ChatRole::kTool && message.name.empty()) {
    return calls.Answer(message.tool_call_id, path + ".tool_call_id");
  }
  if (message.role != ChatRole::kAssistant) return absl::OkStatus();
  calls.BeginMessage();
  for (size_t i = 0; i < message.tool_calls.size(); ++i) {
    RETURN_IF_ERROR(calls.Add(message.tool_calls[i].id,
                              fmt::format("{}.tool_calls[{}].id", path, i)));
  }
  return absl::OkStatus();
}

absl::Status CheckTool(const JsonValue& value, const std::string& path) {
  ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(value, path));
  RETURN_IF_ERROR(RequireFunctionType(object));
  ASSIGN_OR_RETURN(const JsonValue* body,
                   object.Require("function", FieldType::kObject));
  RETURN_IF_ERROR(object.RefuseOthers());
  ASSIGN_OR_RETURN(ObjectReader function,
                   ObjectReader::Open(*body, object.PathOf("function")));
  std::string name;
  std::string description;
  bool is_strict = false;
  RETURN_IF_ERROR(function.RequireString("name", name));
  if (!IsFunctionName(name)) {
    return FieldError(function.PathOf("name"),
                      "expected 1 to 64 letters, digits, '_' and '-'");
  }
  RETURN_IF_ERROR(function.ReadString("description", description));
  RETURN_IF_ERROR(function.ReadBoolean("strict", is_strict));
  if (const JsonValue* parameters = function.Find("parameters");
      parameters != nullptr) {
    RETURN_IF_ERROR(RequireType(*parameters, FieldType::kObject,
                                function.PathOf("parameters")));
  }
  return function.RefuseOthers();
}

}  // namespace

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFunctionName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

absl::StatusOr<std::vector<std::string>> ReadTextParts(
    const JsonValue& content, const std::string& path) {
  if (content.kind == JsonValue::Kind::kString) {
    return std::vector<std::string>{content.text};
  }
  if (content.kind != JsonValue::Kind::kArray) {
    return FieldError(path, "expected a string or an array of text parts",
                      "invalid_type");
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < content.items.size(); ++i) {
    ASSIGN_OR_RETURN(
        ObjectReader part,
        ObjectReader::Open(content.items[i], fmt::format("{}[{}]", path, i)));
    std::string type;
    RETURN_IF_ERROR(part.RequireString("type", type));
    if (type != "text") {
      return NotSupported(part.PathOf("type"), "only text is supported");
    }
    RETURN_IF_ERROR(part.RequireString("text", parts.emplace_back()));
    RETURN_IF_ERROR(part.RefuseOthers());
  }
  return parts;
}

absl::StatusOr<std::vector<ChatMessage>> ReadMessages(const JsonValue& array,
                                                      const std::string& path) {
  std::vector<ChatMessage> messages;
  OpenCalls calls;
  for (size_t i = 0; i < array.items.size(); ++i) {
    const std::string item = fmt::format("{}[{}]", path, i);
    ASSIGN_OR_RETURN(ChatMessage message, ReadMessage(array.items[i], item));
    RETURN_IF_ERROR(CheckCalls(message, item, calls));
    messages.push_back(std::move(message));
  }
  if (messages.empty()) return FieldError(path, "expected a message");
  return messages;
}

absl::StatusOr<std::string> ReadTools(const JsonValue& array,
                                      const std::string& path) {
  for (size_t i = 0; i < array.items.size(); ++i) {
    RETURN_IF_ERROR(CheckTool(array.items[i], fmt::format("{}[{}]", path, i)));
  }
  return array.items.empty() ? "" : DumpJson(array);
}

}  // namespace deltafin
