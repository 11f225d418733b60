#include "coordinator/frontend/chat_template.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/chat_segments.h"
#include "coordinator/frontend/chat_tokens.h"
#include "coordinator/frontend/chat_wire_text.h"
#include "coordinator/frontend/python_json.h"
#include "coordinator/frontend/tool_results.h"
#include "coordinator/frontend/unicode_classes.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Whether Python's str.strip leaves nothing.
bool IsBlank(std::string_view utf8) {
  while (!utf8.empty()) {
    const Utf8Char c = DecodeUtf8Char(utf8);
    if (!IsPythonSpace(c.code_point)) return false;
    utf8.remove_prefix(c.length);
  }
  return true;
}

// Parses `json`, an input named `field`.
absl::StatusOr<JsonValue> ParseField(std::string_view json,
                                     std::string_view field) {
  absl::StatusOr<JsonValue> value = ParseJson(json);
  if (value.ok()) return value;
  return AddContext(absl::InvalidArgumentError(value.status().message()),
                    field);
}

absl::StatusOr<JsonValue> ParseTools(std::string_view json,
                                     std::string_view field) {
  if (json.empty()) return JsonValue{JsonValue::Kind::kArray, "", {}, {}};
  ASSIGN_OR_RETURN(JsonValue tools, ParseField(json, field));
  if (tools.kind != JsonValue::Kind::kArray) {
    return AddContext(absl::InvalidArgumentError("not a JSON array"), field);
  }
  return tools;
}

std::string JsonBlock(const JsonValue& value) {
  return fmt::format("{}{}{}", kJsonFence, DumpCompactSortedJson(value),
                     kFence);
}

std::string_view TypeName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBoolean:
      return "boolean";
    case JsonValue::Kind::kNumber:
      return "number";
    case JsonValue::Kind::kString:
      return "string";
    case JsonValue::Kind::kObject:
      return "object";
    case JsonValue::Kind::kArray:
      break;
  }
  return "array";
}

std::string_view EffortName(Thinking thinking) {
  switch (thinking) {
    case Thinking::kLow:
      return "low";
    case Thinking::kHigh:
      return "high";
    case Thinking::kMax:
      return "max";
    default:
      return "";
  }
}

class Renderer {
 public:
  explicit Renderer(const ChatRequest& request) : request_(request) {}

  absl::StatusOr<std::vector<Segment>> Render() {
    RETURN_IF_ERROR(Tools(request_.tools_json, "tools", kToolsHead).status());
    Effort();
    const auto messages = OrderToolResults(request_.messages);
    for (size_t i = 0; i < messages.size(); ++i) {
      RETURN_IF_ERROR(
          AddContext(Message(messages[i]), fmt::format("messages[{}]", i)));
    }
    Choice();
    RETURN_IF_ERROR(Format());
    if (request_.generation_prompt) GenerationPrompt();
    return out_.Take();
  }

 private:
  bool thinks() const { return request_.thinking != Thinking::kOff; }

  // Declares tools; returns whether there were any.
  absl::StatusOr<bool> Tools(std::string_view json, std::string_view field,
                             std::string_view head) {
    ASSIGN_OR_RETURN(const JsonValue tools, ParseTools(json, field));
    if (tools.items.empty()) return false;
    out_.Note("tool-declare", fmt::format("{}{}", head, JsonBlock(tools)));
    return true;
  }

  void Effort() {
    const std::string_view effort = EffortName(request_.thinking);
    if (effort.empty()) return;
    out_.Note("thinking-effort",
              fmt::format("{}{}{}", kEffortHead, effort, kEffortTail));
  }

  absl::Status Message(const ChatMessage& message) {
    switch (message.role) {
      case ChatRole::kUser:
        PlainMessage(message, "user");
        return absl::OkStatus();
      case ChatRole::kSystem: {
        ASSIGN_OR_RETURN(const bool declared,
                         Tools(message.tools_json, "tools", kMoreToolsHead));
        if (!declared) PlainMessage(message, "system");
        return absl::OkStatus();
      }
      case ChatRole::kAssistant:
        return AssistantMessage(message);
      case ChatRole::kTool:
        return ToolMessage(message);
    }
    return absl::InternalError("unknown role");
  }

  static ChatAttributes RoleAndName(std::string_view role,
                                    const ChatMessage& message) {
    ChatAttributes attributes = {{"role", std::string(role)}};
    if (!message.name.empty()) attributes.emplace_back("name", message.name);
    return attributes;
  }

  void PlainMessage(const ChatMessage& message, std::string_view role) {
    out_.Element("message", RoleAndName(role, message), message.content);
    out_.Control(kEndOfMessageToken);
  }

  absl::Status ToolMessage(const ChatMessage& message) {
    ++tool_messages_;
    std::string tool = message.tool.empty() ? message.name : message.tool;
    if (tool.empty() && tool_messages_ <= last_calls_.size()) {
      tool = last_calls_[tool_messages_ - 1].name;
    }
    if (tool.empty()) {
      return absl::InvalidArgumentError(
          "a tool message needs a tool name, or a tool call that it answers");
    }
    out_.Element("message",
                 {{"role", "tool"},
                  {"tool", tool},
                  {"index", fmt::to_string(tool_messages_)}},
                 message.content);
    out_.Control(kEndOfMessageToken);
    return absl::OkStatus();
  }

  absl::Status AssistantMessage(const ChatMessage& message) {
    last_calls_ = message.tool_calls;
    tool_messages_ = 0;
    out_.Open("message", RoleAndName("assistant", message));
    if (thinks()) {
      const bool blank = IsBlank(message.reasoning);
      out_.Element("think", {}, std::span(&message.reasoning, blank ? 0 : 1));
    }
    out_.Element("response", {}, message.content);
    RETURN_IF_ERROR(ToolCalls(message.tool_calls));
    out_.Close("message");
    out_.Control(kEndOfMessageToken);
    return absl::OkStatus();
  }

  absl::Status ToolCalls(const std::vector<ToolCall>& calls) {
    if (calls.empty()) return absl::OkStatus();
    out_.Open("tools");
    for (size_t i = 0; i < calls.size(); ++i) {
      out_.Open("call",
                {{"tool", calls[i].name}, {"index", fmt::to_string(i + 1)}});
      RETURN_IF_ERROR(AddContext(Arguments(calls[i].arguments_json),
                                 fmt::format("tool_calls[{}]", i)));
      out_.Close("call");
    }
    out_.Close("tools");
    return absl::OkStatus();
  }

  absl::Status Arguments(const std::string& json) {
    if (IsBlank(json)) return absl::OkStatus();
    const absl::StatusOr<JsonValue> arguments = ParseJson(json);
    if (absl::IsInvalidArgument(arguments.status())) {
      out_.Element("json", {{"type", "object"}}, std::span(&json, 1));
      return absl::OkStatus();
    }
    if (!arguments.ok()) {
      return AddContext(
          absl::InvalidArgumentError(arguments.status().message()),
          "arguments");
    }
    if (arguments->kind != JsonValue::Kind::kObject) {
      return absl::InvalidArgumentError("arguments: not a JSON object");
    }
    for (const auto& [key, value] : arguments->members) {
      const bool is_string = value.kind == JsonValue::Kind::kString;
      const std::string text = is_string ? value.text : DumpJson(value);
      out_.Element("argument",
                   {{"key", key}, {"type", std::string(TypeName(value.kind))}},
                   std::span(&text, 1));
    }
    return absl::OkStatus();
  }

  void Choice() {
    if (request_.tool_choice == ToolChoice::kAuto) return;
    const bool required = request_.tool_choice == ToolChoice::kRequired;
    out_.Note("tool-choice",
              std::string(required ? kToolChoiceRequired : kToolChoiceNone));
  }

  absl::Status Format() {
    if (request_.response_format == ResponseFormat::kText) {
      return absl::OkStatus();
    }
    const bool schema = request_.response_format == ResponseFormat::kJsonSchema;
    std::string body =
        fmt::format("{}{}{}", kFormatHead,
                    schema ? "json_schema" : "json_object", kFormatTail);
    if (schema) {
      ASSIGN_OR_RETURN(
          const JsonValue value,
          ParseField(request_.response_schema_json, "response_schema"));
      body += fmt::format("{}{}", kSchemaHead, JsonBlock(value));
    }
    out_.Note("response-format", std::move(body));
    return absl::OkStatus();
  }

  void GenerationPrompt() {
    out_.Open("message", {{"role", "assistant"}});
    out_.Open(thinks() ? "think" : "response");
  }

  const ChatRequest& request_;
  ChatSegments out_;
  std::vector<ToolCall> last_calls_;  // of the last assistant message
  size_t tool_messages_ = 0;          // since then
};

}  // namespace

absl::StatusOr<std::vector<Segment>> RenderChat(const ChatRequest& request) {
  RETURN_IF_ERROR(CheckChatText(request));
  return Renderer(request).Render();
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer,
                                                const ChatRequest& request) {
  RETURN_IF_ERROR(ChatTokens::Find(tokenizer).status());
  ASSIGN_OR_RETURN(const std::vector<Segment> segments, RenderChat(request));
  return tokenizer.Encode(segments);
}

int64_t CountSharedTokens(const Tokenizer& tokenizer,
                          const ChatRequest& request,
                          std::span<const int32_t> ids) {
  ChatRequest head;
  head.tools_json = request.tools_json;
  head.thinking = request.thinking;
  head.generation_prompt = false;
  for (const ChatMessage& message : request.messages) {
    if (message.role != ChatRole::kSystem) break;
    head.messages.push_back(message);
  }
  const auto shared = EncodeChat(tokenizer, head);
  if (!shared.ok() || shared->size() >= ids.size()) return 0;
  const bool begins = std::equal(shared->begin(), shared->end(), ids.begin());
  return begins ? std::ssize(*shared) : 0;
}

}  // namespace deltafin
