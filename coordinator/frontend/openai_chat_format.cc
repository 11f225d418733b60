#include "coordinator/frontend/openai_chat_format.h"

#include <utility>

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string_view FinishName(FinishReason reason, bool has_calls) {
  if (reason == FinishReason::kLength) return "length";
  if (reason == FinishReason::kStop && has_calls) return "tool_calls";
  return "stop";
}

}  // namespace

ChatFormat::ChatFormat(AnswerIdentity identity, ChoicesFormatOptions options,
                       const Vocabulary& vocabulary, int num_choices)
    : ChoicesFormat(std::move(identity), options, vocabulary),
      shown_(num_choices) {}

std::string ChatFormat::Chunk(std::string_view choices,
                              std::string_view usage) const {
  JsonObject chunk = Begun("chat.completion.chunk");
  chunk.Text("service_tier", "default")
      .Text("system_fingerprint", identity().fingerprint)
      .Json("choices", choices);
  if (!usage.empty()) chunk.Json("usage", usage);
  return chunk.text();
}

ServerEvent ChatFormat::DeltaEvent(int choice, std::string_view delta,
                                   std::string_view logprobs,
                                   std::string_view finish_reason) const {
  JsonObject entry;
  entry.Integer("index", choice)
      .Json("delta", delta)
      .Json("logprobs", logprobs);
  AddFinishReason(finish_reason, entry);
  return Event(entry.text());
}

std::string ChatFormat::CallJson(const ToolCallDelta& call,
                                 bool in_stream) const {
  JsonObject json;
  if (in_stream) json.Integer("index", call.index);
  JsonObject function;
  if (call.begins) {
    // Unique among the calls of a conversation, too.
    json.Text("id",
              fmt::format("call_{}_{}",
                          identity().id.substr(identity().id.rfind('-') + 1),
                          call.index + 1));
    json.Text("type", "function");
    function.Text("name", call.name);
  }
  function.Text("arguments", call.arguments);
  return json.Json("function", function.text()).text();
}

std::string ChatFormat::DeltaJson(const ChoiceText& piece,
                                  bool is_first) const {
  JsonObject delta;
  if (is_first) delta.Text("role", "assistant");
  if (!piece.reasoning.empty()) {
    delta.Text("reasoning_content", piece.reasoning);
  }
  if (is_first || !piece.content.empty()) delta.Text("content", piece.content);
  if (is_first) delta.Null("refusal");
  if (!piece.calls.empty()) {
    std::vector<std::string> calls;
    for (const ToolCallDelta& call : piece.calls) {
      calls.push_back(CallJson(call, /*in_stream=*/true));
    }
    delta.Json("tool_calls", JsonArray(calls));
  }
  return delta.text();
}

std::vector<ServerEvent> ChatFormat::Piece(int choice,
                                           const ChoiceText& piece) {
  Shown& shown = shown_[choice];
  const bool is_first = !std::exchange(shown.has_begun, true);
  shown.has_calls |= !piece.calls.empty();
  return {DeltaEvent(choice, DeltaJson(piece, is_first),
                     LogprobsJson(piece.tokens), "")};
}

std::vector<ServerEvent> ChatFormat::ChoiceEnd(int choice,
                                               FinishReason reason) {
  Shown& shown = shown_[choice];
  const bool is_first = !std::exchange(shown.has_begun, true);
  return {DeltaEvent(choice, is_first ? DeltaJson({}, true) : "{}", "null",
                     FinishName(reason, shown.has_calls))};
}

std::optional<ServerEvent> ChatFormat::Nothing() const {
  return DeltaEvent(0, "{}", "null", "");
}

std::string ChatFormat::TokenJson(int32_t id, float logprob,
                                  std::string_view further) const {
  std::vector<std::string> bytes;
  for (const char byte : vocabulary().Bytes(id)) {
    bytes.push_back(fmt::to_string(static_cast<unsigned char>(byte)));
  }
  JsonObject json;
  json.Text("token", TokenText(vocabulary(), id))
      .Number("logprob", logprob)
      .Json("bytes", JsonArray(bytes));
  if (!further.empty()) json.Json("top_logprobs", further);
  return json.text();
}

std::string ChatFormat::LogprobsJson(
    std::span<const ScoredToken> tokens) const {
  if (!options().has_logprobs) return "null";
  std::vector<std::string> content;
  for (const ScoredToken& token : tokens) {
    std::vector<std::string> top;
    for (const TokenLogprob& other : token.top) {
      top.push_back(TokenJson(other.id, other.logprob, ""));
    }
    content.push_back(
        TokenJson(token.id, token.logprob.value_or(0), JsonArray(top)));
  }
  return JsonObject()
      .Json("content", JsonArray(content))
      .Null("refusal")
      .text();
}

std::string ChatFormat::MessageJson(const ChoiceText& text) const {
  JsonObject message;
  message.Text("role", "assistant");
  if (text.content.empty() && !text.calls.empty()) {
    message.Null("content");
  } else {
    message.Text("content", text.content);
  }
  if (!text.reasoning.empty()) {
    message.Text("reasoning_content", text.reasoning);
  }
  message.Null("refusal").Json("annotations", "[]");
  if (!text.calls.empty()) {
    std::vector<std::string> calls;
    for (const ToolCallDelta& call : text.calls) {
      calls.push_back(CallJson(call, /*in_stream=*/false));
    }
    message.Json("tool_calls", JsonArray(calls));
  }
  return message.text();
}

std::string ChatFormat::Whole(std::span<const Choice> choices,
                              const AnswerUsage& usage) const {
  std::vector<std::string> entries;
  for (const Choice& choice : choices) {
    entries.push_back(
        JsonObject()
            .Integer("index", static_cast<int64_t>(entries.size()))
            .Json("message", MessageJson(choice.text))
            .Json("logprobs", LogprobsJson(choice.text.tokens))
            .Text("finish_reason",
                  FinishName(choice.finish_reason, !choice.text.calls.empty()))
            .text());
  }
  return Begun("chat.completion")
      .Json("choices", JsonArray(entries))
      .Json("usage", UsageJson(usage))
      .Text("service_tier", "default")
      .Text("system_fingerprint", identity().fingerprint)
      .text();
}

}  // namespace deltafin
