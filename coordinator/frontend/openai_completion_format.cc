#include "coordinator/frontend/openai_completion_format.h"

#include <algorithm>
#include <utility>

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string_view FinishName(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

// Of UTF-8, wherever it is cut.
int64_t NumCharacters(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](unsigned char byte) {
    return (byte & 0xC0) != 0x80;
  });
}

std::string NumberOrNull(std::optional<float> number) {
  return number ? fmt::format("{}", *number) : "null";
}

}  // namespace

CompletionFormat::CompletionFormat(AnswerIdentity identity,
                                   CompletionFormatOptions options,
                                   const Vocabulary& vocabulary,
                                   int num_choices)
    : identity_(std::move(identity)),
      options_(options),
      vocabulary_(vocabulary),
      offsets_(num_choices) {}

std::string CompletionFormat::Body(std::string_view choices,
                                   std::string_view usage) const {
  JsonObject body;
  body.Text("id", identity_.id)
      .Text("object", "text_completion")
      .Integer("created", absl::ToUnixSeconds(identity_.created))
      .Text("model", identity_.model)
      .Text("system_fingerprint", identity_.fingerprint)
      .Json("choices", choices);
  if (!usage.empty()) body.Json("usage", usage);
  return body.text();
}

std::string CompletionFormat::ChoiceJson(int choice, std::string_view text,
                                         std::string_view logprobs,
                                         std::string_view finish_reason) {
  JsonObject json;
  json.Text("text", text).Integer("index", choice).Json("logprobs", logprobs);
  if (finish_reason.empty()) {
    json.Null("finish_reason");
  } else {
    json.Text("finish_reason", finish_reason);
  }
  return json.text();
}

std::string CompletionFormat::TopJson(const ScoredToken& token) const {
  if (options_.top_logprobs == 0 || !token.logprob) return "null";
  JsonObject top;
  for (const TokenLogprob& other : token.top) {
    top.Number(TokenText(vocabulary_, other.id), other.logprob);
  }
  return top.text();
}

std::string CompletionFormat::LogprobsJson(std::span<const ScoredToken> tokens,
                                           int64_t& offset) const {
  if (!options_.has_logprobs) return "null";
  std::vector<std::string> texts;
  std::vector<std::string> scores;
  std::vector<std::string> tops;
  std::vector<std::string> offsets;
  for (const ScoredToken& token : tokens) {
    texts.push_back(QuoteJson(TokenText(vocabulary_, token.id)));
    scores.push_back(NumberOrNull(token.logprob));
    tops.push_back(TopJson(token));
    offsets.push_back(fmt::to_string(offset));
    offset += NumCharacters(vocabulary_.Bytes(token.id));
  }
  const bool has_tops = options_.top_logprobs > 0;
  return JsonObject()
      .Json("tokens", JsonArray(texts))
      .Json("token_logprobs", JsonArray(scores))
      .Json("top_logprobs", has_tops ? JsonArray(tops) : "null")
      .Json("text_offset", JsonArray(offsets))
      .text();
}

std::vector<ServerEvent> CompletionFormat::Piece(int choice,
                                                 const ChoiceText& piece) {
  const std::string logprobs = LogprobsJson(piece.tokens, offsets_[choice]);
  const std::string json = ChoiceJson(choice, piece.content, logprobs, "");
  return {{"", Body(fmt::format("[{}]", json),
                    options_.include_usage ? "null" : "")}};
}

std::vector<ServerEvent> CompletionFormat::ChoiceEnd(int choice,
                                                     FinishReason reason) {
  const std::string json = ChoiceJson(choice, "", "null", FinishName(reason));
  return {{"", Body(fmt::format("[{}]", json),
                    options_.include_usage ? "null" : "")}};
}

std::vector<ServerEvent> CompletionFormat::End(const AnswerUsage& usage) {
  std::vector<ServerEvent> events;
  if (options_.include_usage) {
    events.push_back({"", Body("[]", UsageJson(usage))});
  }
  events.push_back({"", "[DONE]"});
  return events;
}

std::vector<ServerEvent> CompletionFormat::Error(const absl::Status& status) {
  return ErrorEvent(status);
}

std::optional<ServerEvent> CompletionFormat::Nothing() const {
  const std::string json = ChoiceJson(0, "", "null", "");
  return ServerEvent{"", Body(fmt::format("[{}]", json),
                              options_.include_usage ? "null" : "")};
}

std::string CompletionFormat::Whole(std::span<const Choice> choices,
                                    const AnswerUsage& usage) const {
  std::vector<std::string> entries;
  for (const Choice& choice : choices) {
    int64_t offset = 0;
    entries.push_back(ChoiceJson(static_cast<int>(entries.size()),
                                 choice.text.content,
                                 LogprobsJson(choice.text.tokens, offset),
                                 FinishName(choice.finish_reason)));
  }
  return Body(JsonArray(entries), UsageJson(usage));
}

}  // namespace deltafin
