#include "coordinator/frontend/openai_response_input.h"

#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_messages.h"
#include "coordinator/frontend/openai_object.h"
#include "coordinator/frontend/openai_open_calls.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Text parts of one of these types.
absl::Status ReadParts(const JsonValue& array, const std::string& path,
                       std::initializer_list<std::string_view> types,
                       std::vector<std::string>& parts) {
  RETURN_IF_ERROR(RequireType(array, FieldType::kArray, path));
  for (size_t i = 0; i < array.items.size(); ++i) {
    ASSIGN_OR_RETURN(
        ObjectReader part,
        ObjectReader::Open(array.items[i], fmt::format("{}[{}]", path, i)));
    std::string type;
    RETURN_IF_ERROR(part.RequireString("type", type));
    bool is_text = false;
    for (const std::string_view known : types) is_text |= type == known;
    if (!is_text) {
      return NotSupported(part.PathOf("type"), "only text is supported");
    }
    RETURN_IF_ERROR(part.RequireString("text", parts.emplace_back()));
    RETURN_IF_ERROR(part.RequireEmpty("annotations"));
    RETURN_IF_ERROR(part.RequireEmpty("logprobs"));
    RETURN_IF_ERROR(part.RefuseOthers());
  }
  return absl::OkStatus();
}

absl::Status ReadContent(ObjectReader& item, const char* name,
                         std::vector<std::string>& parts) {
  const JsonValue* content = item.Find(name);
  const std::string path = item.PathOf(name);
  if (content == nullptr) {
    return FieldError(path, "missing", "missing_required_parameter");
  }
  if (content->kind == JsonValue::Kind::kString) {
    parts.push_back(content->text);
    return absl::OkStatus();
  }
  return ReadParts(*content, path, {"input_text", "output_text"}, parts);
}

// Puts items together to messages.
class InputReader {
 public:
  absl::Status Add(const JsonValue& value, const std::string& path) {
    std::string type = "message";
    std::string unread;
    ASSIGN_OR_RETURN(ObjectReader item, ObjectReader::Open(value, path));
    RETURN_IF_ERROR(item.ReadString("type", type));
    RETURN_IF_ERROR(item.ReadString("id", unread));
    RETURN_IF_ERROR(item.ReadString("status", unread));
    RETURN_IF_ERROR(AddOfType(type, item));
    return item.RefuseOthers();
  }

  std::vector<ChatMessage> Take() { return std::move(messages_); }

 private:
  absl::Status AddOfType(const std::string& type, ObjectReader& item) {
    if (type == "message") return AddMessage(item);
    if (type == "reasoning") return AddReasoning(item);
    if (type == "function_call") return AddCall(item);
    if (type == "function_call_output") return AddOutput(item);
    return NotSupported(item.PathOf("type"),
                        "expected message, reasoning, function_call or "
                        "function_call_output");
  }

  absl::Status AddMessage(ObjectReader& item) {
    std::string role;
    RETURN_IF_ERROR(item.RequireString("role", role));
    if (role == "assistant") {
      return ReadContent(item, "content", Assistant().content);
    }
    ChatMessage message;
    if (role == "system" || role == "developer") {
      message.role = ChatRole::kSystem;
    } else if (role != "user") {
      return FieldError(item.PathOf("role"),
                        "expected system, developer, user or assistant");
    }
    RETURN_IF_ERROR(ReadContent(item, "content", message.content));
    messages_.push_back(std::move(message));
    return absl::OkStatus();
  }

  absl::Status AddReasoning(ObjectReader& item) {
    RETURN_IF_ERROR(item.RequireEmpty("summary"));
    RETURN_IF_ERROR(item.RequireEmpty("encrypted_content"));
    const JsonValue* content = item.Find("content");
    if (content == nullptr) return absl::OkStatus();
    std::vector<std::string> parts;
    RETURN_IF_ERROR(
        ReadParts(*content, item.PathOf("content"), {"reasoning_text"}, parts));
    for (const std::string& part : parts) Assistant().reasoning += part;
    return absl::OkStatus();
  }

  absl::Status AddCall(ObjectReader& item) {
    ToolCall call;
    RETURN_IF_ERROR(item.RequireString("call_id", call.id));
    RETURN_IF_ERROR(item.RequireString("name", call.name));
    RETURN_IF_ERROR(item.RequireString("arguments", call.arguments_json));
    ChatMessage& message = Assistant();
    RETURN_IF_ERROR(calls_.Add(call.id, item.PathOf("call_id")));
    message.tool_calls.push_back(std::move(call));
    return absl::OkStatus();
  }

  absl::Status AddOutput(ObjectReader& item) {
    ChatMessage message;
    message.role = ChatRole::kTool;
    RETURN_IF_ERROR(item.RequireString("call_id", message.tool_call_id));
    RETURN_IF_ERROR(
        calls_.Answer(message.tool_call_id, item.PathOf("call_id")));
    RETURN_IF_ERROR(ReadContent(item, "output", message.content));
    messages_.push_back(std::move(message));
    return absl::OkStatus();
  }

  ChatMessage& Assistant() {
    if (messages_.empty() || messages_.back().role != ChatRole::kAssistant) {
      messages_.emplace_back().role = ChatRole::kAssistant;
      calls_.BeginMessage();
    }
    return messages_.back();
  }

  std::vector<ChatMessage> messages_;
  OpenCalls calls_;  // of the last of them that is the assistant's
};

}  // namespace

absl::StatusOr<std::vector<ChatMessage>> ReadResponseInput(
    const JsonValue& input) {
  if (input.kind == JsonValue::Kind::kString) {
    std::vector<ChatMessage> messages(1);
    messages[0].content = {input.text};
    return messages;
  }
  if (input.kind != JsonValue::Kind::kArray) {
    return FieldError("input", "expected text or an array of items",
                      "invalid_type");
  }
  InputReader reader;
  for (size_t i = 0; i < input.items.size(); ++i) {
    RETURN_IF_ERROR(reader.Add(input.items[i], fmt::format("input[{}]", i)));
  }
  std::vector<ChatMessage> messages = reader.Take();
  if (messages.empty()) return FieldError("input", "expected an item");
  return messages;
}

namespace {

// This API declares functions without the object around them that ReadTools
// names in its errors.
absl::Status InFlatForm(const absl::Status& status) {
  constexpr std::string_view kAround = ".function";
  OpenAiError error = ToOpenAiError(status);
  for (std::string* text : {&error.param, &error.message}) {
    const size_t at = text->find(kAround);
    if (at != std::string::npos) text->erase(at, kAround.size());
  }
  return WithCode(
      WithField(absl::InvalidArgumentError(error.message), error.param),
      error.code);
}

}  // namespace

absl::StatusOr<std::string> ReadResponseTools(const JsonValue& array) {
  std::vector<std::string> tools;
  for (size_t i = 0; i < array.items.size(); ++i) {
    const JsonValue& tool = array.items[i];
    const std::string path = fmt::format("tools[{}]", i);
    std::string type;
    ASSIGN_OR_RETURN(ObjectReader object, ObjectReader::Open(tool, path));
    RETURN_IF_ERROR(object.RequireString("type", type));
    JsonValue function = tool;
    std::erase_if(function.members,
                  [](const JsonMember& m) { return m.key == "type"; });
    tools.push_back(JsonObject()
                        .Text("type", type)
                        .Json("function", DumpJson(function))
                        .text());
  }
  ASSIGN_OR_RETURN(const JsonValue nested, ParseJson(JsonArray(tools)));
  auto json = ReadTools(nested, "tools");
  if (!json.ok()) return InFlatForm(json.status());
  return json;
}

}  // namespace deltafin
