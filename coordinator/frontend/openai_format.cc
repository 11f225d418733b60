#include "coordinator/frontend/openai_format.h"

#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/message_grammar.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_messages.h"
#include "coordinator/frontend/openai_object.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kSchemaStyleMember[] = "json_schema";

absl::Status ReadName(ObjectReader& object, std::string& name) {
  RETURN_IF_ERROR(object.RequireString("name", name));
  if (IsFunctionName(name)) return absl::OkStatus();
  return FieldError(object.PathOf("name"),
                    "expected 1 to 64 letters, digits, '_' and '-'");
}

absl::Status ReadSchema(ObjectReader& object, OpenAiRequest& request) {
  bool is_strict = false;
  RETURN_IF_ERROR(ReadName(object, request.response_schema_name));
  RETURN_IF_ERROR(
      object.ReadString("description", request.response_schema_description));
  // Every answer is held to its schema.
  RETURN_IF_ERROR(object.ReadBoolean("strict", is_strict));
  ASSIGN_OR_RETURN(const JsonValue* schema,
                   object.Require("schema", FieldType::kObject));
  request.chat.response_format = ResponseFormat::kJsonSchema;
  request.chat.response_schema_json = DumpJson(*schema);
  return object.RefuseOthers();
}

}  // namespace

absl::Status ReadResponseFormat(const JsonValue& value, std::string_view field,
                                ObjectStyle style, OpenAiRequest& request) {
  std::string type;
  ASSIGN_OR_RETURN(ObjectReader object,
                   ObjectReader::Open(value, std::string(field)));
  RETURN_IF_ERROR(object.RequireString("type", type));
  if (type == "json_schema" && style == ObjectStyle::kFlat) {
    return ReadSchema(object, request);
  }
  if (type == "json_schema") {
    ASSIGN_OR_RETURN(const JsonValue* body,
                     object.Require(kSchemaStyleMember, FieldType::kObject));
    RETURN_IF_ERROR(object.RefuseOthers());
    ASSIGN_OR_RETURN(
        ObjectReader inner,
        ObjectReader::Open(*body, object.PathOf(kSchemaStyleMember)));
    return ReadSchema(inner, request);
  }
  if (type == "json_object") {
    request.chat.response_format = ResponseFormat::kJsonObject;
  } else if (type != "text") {
    return NotSupported(object.PathOf("type"),
                        "only text, json_object and json_schema are supported");
  }
  return object.RefuseOthers();
}

absl::Status ReadToolChoice(const JsonValue& value, ObjectStyle style,
                            OpenAiRequest& request) {
  constexpr std::pair<std::string_view, ToolChoice> kChoices[] = {
      {"auto", ToolChoice::kAuto},
      {"none", ToolChoice::kNone},
      {"required", ToolChoice::kRequired}};
  if (value.kind != JsonValue::Kind::kObject) {
    for (const auto& [name, choice] : kChoices) {
      if (value.kind != JsonValue::Kind::kString || value.text != name)
        continue;
      request.chat.tool_choice = choice;
      return absl::OkStatus();
    }
    return NotSupported(
        "tool_choice",
        "only auto, none, required and a function are supported");
  }
  std::string type;
  ASSIGN_OR_RETURN(ObjectReader object,
                   ObjectReader::Open(value, "tool_choice"));
  RETURN_IF_ERROR(object.RequireString("type", type));
  if (type != "function") {
    return NotSupported("tool_choice.type", "only function is supported");
  }
  request.chat.tool_choice = ToolChoice::kRequired;
  if (style == ObjectStyle::kFlat) {
    RETURN_IF_ERROR(ReadName(object, request.chat.tool_name));
    return object.RefuseOthers();
  }
  ASSIGN_OR_RETURN(const JsonValue* function,
                   object.Require("function", FieldType::kObject));
  RETURN_IF_ERROR(object.RefuseOthers());
  ASSIGN_OR_RETURN(ObjectReader inner,
                   ObjectReader::Open(*function, "tool_choice.function"));
  RETURN_IF_ERROR(ReadName(inner, request.chat.tool_name));
  return inner.RefuseOthers();
}

absl::Status MakeGrammar(std::string_view format_field, ObjectStyle style,
                         OpenAiRequest& request) {
  const bool is_flat = style == ObjectStyle::kFlat;
  const std::string schema = fmt::format(
      "{}{}", format_field, is_flat ? ".schema" : ".json_schema.schema");
  std::string where;
  auto grammar = MakeMessageGrammar(
      request.chat,
      {schema, "tools", is_flat ? "parameters" : "function.parameters",
       "tool_choice"},
      where);
  if (!grammar.ok())
    return FieldError(where, std::string(grammar.status().message()));
  request.grammar = *std::move(grammar);
  if (request.grammar != nullptr && request.generation.ignore_eos) {
    return FieldError("ignore_eos",
                      "an answer in a given format ends where the format does");
  }
  return absl::OkStatus();
}

std::string FormatJson(const OpenAiRequest& request) {
  JsonObject format;
  switch (request.chat.response_format) {
    case ResponseFormat::kText:
      return format.Text("type", "text").text();
    case ResponseFormat::kJsonObject:
      return format.Text("type", "json_object").text();
    case ResponseFormat::kJsonSchema:
      break;
  }
  format.Text("type", "json_schema").Text("name", request.response_schema_name);
  if (request.response_schema_description.empty()) {
    format.Null("description");
  } else {
    format.Text("description", request.response_schema_description);
  }
  return format.Json("schema", request.chat.response_schema_json)
      .Boolean("strict", true)
      .text();
}

std::string ToolChoiceJson(const OpenAiRequest& request) {
  if (!request.chat.tool_name.empty()) {
    return JsonObject()
        .Text("type", "function")
        .Text("name", request.chat.tool_name)
        .text();
  }
  switch (request.chat.tool_choice) {
    case ToolChoice::kAuto:
      return "\"auto\"";
    case ToolChoice::kNone:
      return "\"none\"";
    case ToolChoice::kRequired:
      break;
  }
  return "\"required\"";
}

}  // namespace deltafin
