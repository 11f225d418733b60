#include "tests/unit/coordinator/frontend/text_fixtures.h"

#include <cstdio>
#include <fstream>
#include <iterator>

#include "coordinator/frontend/python_json.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

using Kind = JsonValue::Kind;

// The string member `key`, or "".
std::string Text(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->kind != Kind::kString ? "" : value->text;
}

std::string Json(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->kind == Kind::kNull ? "" : DumpJson(*value);
}

std::vector<std::string> Content(const JsonValue& message) {
  const JsonValue* content = message.Find("content");
  std::vector<std::string> parts;
  if (content == nullptr || content->kind == Kind::kNull) return parts;
  if (content->kind == Kind::kString) return {content->text};
  for (const JsonValue& part : content->items) {
    parts.push_back(Text(part, "text"));
  }
  return parts;
}

ChatMessage Message(const JsonValue& json) {
  ChatMessage message;
  const std::string role = Text(json, "role");
  message.role = role == "user"        ? ChatRole::kUser
                 : role == "system"    ? ChatRole::kSystem
                 : role == "assistant" ? ChatRole::kAssistant
                                       : ChatRole::kTool;
  message.content = Content(json);
  message.name = Text(json, "name");
  message.reasoning = Text(json, "reasoning_content");
  message.tool_call_id = Text(json, "tool_call_id");
  message.tool = Text(json, "tool");
  message.tools_json = Json(json, "tools");
  const JsonValue* calls = json.Find("tool_calls");
  if (calls == nullptr) return message;
  for (const JsonValue& call : calls->items) {
    const JsonValue& function = *call.Find("function");
    message.tool_calls.push_back({Text(call, "id"), Text(function, "name"),
                                  Text(function, "arguments")});
  }
  return message;
}

Thinking ThinkingOf(const JsonValue& json) {
  const JsonValue* thinking = json.Find("thinking");
  if (thinking != nullptr && thinking->text == "false") return Thinking::kOff;
  if (json.Find("effort") == nullptr) return Thinking::kMax;
  const std::string effort = Text(json, "effort");
  if (effort == "low") return Thinking::kLow;
  if (effort == "high") return Thinking::kHigh;
  return effort == "max" ? Thinking::kMax : Thinking::kUnstated;
}

void SetFormat(const JsonValue& json, ChatRequest& request) {
  const JsonValue* format = json.Find("response_format");
  if (format == nullptr || format->kind != Kind::kObject) return;
  const std::string type = Text(*format, "type");
  if (type == "json_object") {
    request.response_format = ResponseFormat::kJsonObject;
  }
  if (type == "json_schema") {
    request.response_format = ResponseFormat::kJsonSchema;
    request.response_schema_json = Json(*format->Find("json_schema"), "schema");
  }
}

}  // namespace

const Tokenizer& NanoTokenizer() {
  static const auto* tokenizer = Tokenizer::Load(kNanoDir, 4096)->release();
  return *tokenizer;
}

const Tokenizer& TinyTokenizer() {
  static const auto* tokenizer = Tokenizer::Load(kTinyDir, 640)->release();
  return *tokenizer;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<int32_t> ControlIds(std::string_view control_text) {
  return *NanoTokenizer().Encode(control_text, SegmentKind::kControl);
}

nlohmann::json ReferenceCases(const std::string& kind, int count) {
  const std::string command =
      "/usr/bin/python3 " DELTAFIN_SOURCE_DIR
      "/tests/unit/coordinator/frontend/reference_cases.py " +
      kind + " " + std::to_string(count) + " 1 " + kNanoDir;
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[65536];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, n);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  nlohmann::json cases = nlohmann::json::parse(output);
  EXPECT_EQ(cases.size(), static_cast<size_t>(count));
  return cases;
}

ChatRequest ChatFromJson(std::string_view render_arguments) {
  const JsonValue json = *ParseJson(render_arguments);
  ChatRequest request;
  for (const JsonValue& message : json.Find("messages")->items) {
    request.messages.push_back(Message(message));
  }
  request.tools_json = Json(json, "tools");
  request.thinking = ThinkingOf(json);
  const std::string choice = Text(json, "tool_choice");
  request.tool_choice = choice == "required" ? ToolChoice::kRequired
                        : choice == "none"   ? ToolChoice::kNone
                                             : ToolChoice::kAuto;
  SetFormat(json, request);
  const JsonValue* prompt = json.Find("generation_prompt");
  request.generation_prompt = prompt == nullptr || prompt->text == "true";
  return request;
}

}  // namespace deltafin
