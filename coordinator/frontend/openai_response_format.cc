#include "coordinator/frontend/openai_response_format.h"

#include <utility>

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_error.h"
#include "coordinator/frontend/openai_format.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string ResponseUsageJson(const AnswerUsage& usage) {
  return JsonObject()
      .Integer("input_tokens", usage.prompt_tokens)
      .Json("input_tokens_details",
            JsonObject().Integer("cached_tokens", usage.cached_tokens).text())
      .Integer("output_tokens", usage.completion_tokens)
      .Json("output_tokens_details",
            JsonObject()
                .Integer("reasoning_tokens", usage.reasoning_tokens)
                .text())
      .Integer("total_tokens", usage.prompt_tokens + usage.completion_tokens)
      .text();
}

std::string ErrorFields(const absl::Status& status) {
  const OpenAiError error = ToOpenAiError(status);
  return JsonObject()
      .Text("code", error.code)
      .Text("message", error.message)
      .text();
}

std::string EffortJson(Thinking thinking) {
  switch (thinking) {
    case Thinking::kOff:
      return "\"none\"";
    case Thinking::kLow:
      return "\"low\"";
    case Thinking::kHigh:
      return "\"high\"";
    case Thinking::kMax:
      return "\"max\"";
    case Thinking::kUnstated:
      break;
  }
  return "null";
}

// A JSON object's members.
std::string MembersOf(const JsonObject& object) {
  const std::string text = object.text();
  return text.substr(1, text.size() - 2);
}

}  // namespace

ResponsesFormat::ResponsesFormat(AnswerIdentity identity, std::string echo)
    : identity_(std::move(identity)), echo_(std::move(echo)) {}

std::vector<ServerEvent> ResponsesFormat::TakeEvents() {
  return std::exchange(events_, {});
}

void ResponsesFormat::Say(std::string_view type, std::string_view members) {
  events_.push_back({std::string(type),
                     fmt::format("{{\"type\":{},\"sequence_number\":{},{}}}",
                                 QuoteJson(type), num_events_++, members)});
}

std::string ResponsesFormat::ItemId() const {
  const char* prefix = item_.kind == ItemKind::kReasoning ? "rs"
                       : item_.kind == ItemKind::kMessage ? "msg"
                                                          : "fc";
  return fmt::format("{}_{}_{}", prefix,
                     identity_.id.substr(identity_.id.find('_') + 1),
                     items_.size());
}

std::string ResponsesFormat::Place() const {
  JsonObject place;
  place.Text("item_id", ItemId()).Integer("output_index", std::ssize(items_));
  if (item_.kind != ItemKind::kCall) place.Integer("content_index", 0);
  return MembersOf(place);
}

std::string ResponsesFormat::PartJson() const {
  JsonObject part;
  if (item_.kind == ItemKind::kReasoning) {
    return part.Text("type", "reasoning_text").Text("text", item_.text).text();
  }
  return part.Text("type", "output_text")
      .Text("text", item_.text)
      .Json("annotations", "[]")
      .Json("logprobs", "[]")
      .text();
}

std::string ResponsesFormat::ItemJson(std::string_view status) const {
  JsonObject json;
  json.Text("id", ItemId());
  const bool has_text = status != "in_progress";
  const std::string parts = has_text ? fmt::format("[{}]", PartJson()) : "[]";
  if (item_.kind == ItemKind::kReasoning) {
    json.Text("type", "reasoning").Json("summary", "[]").Json("content", parts);
  } else if (item_.kind == ItemKind::kMessage) {
    json.Text("type", "message")
        .Text("role", "assistant")
        .Json("content", parts);
  } else {
    json.Text("type", "function_call")
        .Text("call_id",
              fmt::format("call_{}_{}",
                          identity_.id.substr(identity_.id.find('_') + 1),
                          num_calls_))
        .Text("name", item_.name)
        .Text("arguments", item_.text);
  }
  return json.Text("status", status).text();
}

void ResponsesFormat::Open(ItemKind kind, std::string name) {
  if (item_.kind == kind && kind != ItemKind::kCall) return;
  Close(/*is_cut=*/false);
  if (kind == ItemKind::kCall) ++num_calls_;
  item_ = {kind, std::move(name), ""};
  Say("response.output_item.added",
      MembersOf(JsonObject()
                    .Integer("output_index", std::ssize(items_))
                    .Json("item", ItemJson("in_progress"))));
  if (kind == ItemKind::kCall) return;
  Say("response.content_part.added",
      fmt::format("{},\"part\":{}", Place(), PartJson()));
}

void ResponsesFormat::AddText(std::string_view text) {
  if (text.empty()) return;
  item_.text += text;
  const std::string delta = QuoteJson(text);
  switch (item_.kind) {
    case ItemKind::kReasoning:
      return Say("response.reasoning_text.delta",
                 fmt::format("{},\"delta\":{}", Place(), delta));
    case ItemKind::kMessage:
      return Say(
          "response.output_text.delta",
          fmt::format("{},\"delta\":{},\"logprobs\":[]", Place(), delta));
    case ItemKind::kCall:
      return Say("response.function_call_arguments.delta",
                 fmt::format("{},\"delta\":{}", Place(), delta));
    case ItemKind::kNone:
      return;
  }
}

void ResponsesFormat::Close(bool is_cut) {
  if (item_.kind == ItemKind::kNone) return;
  const std::string text = QuoteJson(item_.text);
  if (item_.kind == ItemKind::kCall) {
    Say("response.function_call_arguments.done",
        fmt::format("{},\"name\":{},\"arguments\":{}", Place(),
                    QuoteJson(item_.name), text));
  } else if (item_.kind == ItemKind::kReasoning) {
    Say("response.reasoning_text.done",
        fmt::format("{},\"text\":{}", Place(), text));
  } else {
    Say("response.output_text.done",
        fmt::format("{},\"text\":{},\"logprobs\":[]", Place(), text));
  }
  if (item_.kind != ItemKind::kCall) {
    Say("response.content_part.done",
        fmt::format("{},\"part\":{}", Place(), PartJson()));
  }
  const std::string item = ItemJson(is_cut ? "incomplete" : "completed");
  Say("response.output_item.done",
      fmt::format("\"output_index\":{},\"item\":{}", items_.size(), item));
  items_.push_back(item);
  item_ = {};
}

std::vector<ServerEvent> ResponsesFormat::Begin() {
  const std::string response = ResponseMember("in_progress", "null", "null");
  Say("response.created", response);
  Say("response.in_progress", response);
  return TakeEvents();
}

std::vector<ServerEvent> ResponsesFormat::Piece(int /*choice*/,
                                                const ChoiceText& piece) {
  if (!piece.reasoning.empty()) {
    Open(ItemKind::kReasoning, "");
    AddText(piece.reasoning);
  }
  if (!piece.content.empty()) {
    Open(ItemKind::kMessage, "");
    AddText(piece.content);
  }
  for (const ToolCallDelta& call : piece.calls) {
    if (call.begins) Open(ItemKind::kCall, call.name);
    AddText(call.arguments);
  }
  return TakeEvents();
}

std::vector<ServerEvent> ResponsesFormat::ChoiceEnd(int /*choice*/,
                                                    FinishReason reason) {
  is_cut_ = reason == FinishReason::kLength;
  Close(is_cut_);
  return TakeEvents();
}

std::string ResponsesFormat::ResponseJson(std::string_view status,
                                          std::string_view usage,
                                          std::string_view error) const {
  const std::string json =
      JsonObject()
          .Text("id", identity_.id)
          .Text("object", "response")
          .Integer("created_at", absl::ToUnixSeconds(identity_.created))
          .Text("status", status)
          .Text("model", identity_.model)
          .Json("output", JsonArray(items_))
          .Json("error", error)
          .Json("incomplete_details",
                is_cut_ ? R"({"reason":"max_output_tokens"})" : "null")
          .Json("usage", usage)
          .text();
  return fmt::format("{},{}}}",
                     std::string_view(json).substr(0, json.size() - 1), echo_);
}

std::string ResponsesFormat::ResponseMember(std::string_view status,
                                            std::string_view usage,
                                            std::string_view error) const {
  return fmt::format("\"response\":{}", ResponseJson(status, usage, error));
}

std::vector<ServerEvent> ResponsesFormat::End(const AnswerUsage& usage) {
  const std::string_view status = is_cut_ ? "incomplete" : "completed";
  Say(fmt::format("response.{}", status),
      ResponseMember(status, ResponseUsageJson(usage), "null"));
  return TakeEvents();
}

std::vector<ServerEvent> ResponsesFormat::Error(const absl::Status& status) {
  Close(/*is_cut=*/true);
  Say("response.failed", ResponseMember("failed", "null", ErrorFields(status)));
  return TakeEvents();
}

std::string ResponsesFormat::Whole(std::span<const Choice> choices,
                                   const AnswerUsage& usage) const {
  // What a stream would have built.
  ResponsesFormat stream(identity_, echo_);
  stream.Piece(0, choices[0].text);
  stream.ChoiceEnd(0, choices[0].finish_reason);
  return stream.ResponseJson(stream.is_cut_ ? "incomplete" : "completed",
                             ResponseUsageJson(usage), "null");
}

std::string ResponseEcho(const OpenAiRequest& request) {
  const SamplingOptions& sampling = request.generation.sampling;
  JsonObject echo;
  echo.Json("instructions", request.instructions.empty()
                                ? "null"
                                : QuoteJson(request.instructions))
      .Json("max_output_tokens",
            request.max_tokens ? fmt::to_string(*request.max_tokens) : "null")
      .Null("previous_response_id")
      .Json("metadata", "{}")
      .Boolean("parallel_tool_calls", request.chat.parallel_tool_calls)
      .Json("reasoning", JsonObject()
                             .Json("effort", EffortJson(request.chat.thinking))
                             .Null("summary")
                             .text())
      .Boolean("store", false)
      .Number("temperature", sampling.temperature)
      .Json("text", JsonObject().Json("format", FormatJson(request)).text())
      .Json("tool_choice", ToolChoiceJson(request))
      .Json("tools", request.response_tools_json.empty()
                         ? "[]"
                         : request.response_tools_json)
      .Number("top_p", sampling.top_p)
      .Text("truncation", "disabled");
  return MembersOf(echo);
}

}  // namespace deltafin
