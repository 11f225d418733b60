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
                                   ChoicesFormatOptions options,
                                   const Vocabulary& vocabulary,
                                   int num_choices)
    : ChoicesFormat(std::move(identity), options, vocabulary),
      offsets_(num_choices) {}

std::string CompletionFormat::Chunk(std::string_view choices,
                                    std::string_view usage) const {
  JsonObject body = Begun("text_completion");
  body.Text("system_fingerprint", identity().fingerprint)
      .Json("choices", choices);
  if (!usage.empty()) body.Json("usage", usage);
  return body.text();
}

std::string CompletionFormat::ChoiceJson(int choice, std::string_view text,
                                         std::string_view logprobs,
                                         std::string_view finish_reason) {
  JsonObject json;
  json.Text("text", text).Integer("index", choice).Json("logprobs", logprobs);
  AddFinishReason(finish_reason, json);
  return json.text();
}

std::string CompletionFormat::TopJson(const ScoredToken& token) const {
  if (options().top_logprobs == 0 || !token.logprob) return "null";
  JsonObject top;
  for (const TokenLogprob& other : token.top) {
    top.Number(TokenText(vocabulary(), other.id), other.logprob);
  }
  return top.text();
}

std::string CompletionFormat::LogprobsJson(std::span<const ScoredToken> tokens,
                                           int64_t& offset) const {
  if (!options().has_logprobs) return "null";
  std::vector<std::string> texts;
  std::vector<std::string> scores;
  std::vector<std::string> tops;
  std::vector<std::string> offsets;
  for (const ScoredToken& token : tokens) {
    texts.push_back(QuoteJson(TokenText(vocabulary(), token.id)));
    scores.push_back(NumberOrNull(token.logprob));
    tops.push_back(TopJson(token));
    offsets.push_back(fmt::to_string(offset));
    offset += NumCharacters(vocabulary().Bytes(token.id));
  }
  const bool has_tops = options().top_logprobs > 0;
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
  return {Event(ChoiceJson(choice, piece.content, logprobs, ""))};
}

std::vector<ServerEvent> CompletionFormat::ChoiceEnd(int choice,
                                                     FinishReason reason) {
  return {Event(ChoiceJson(choice, "", "null", FinishName(reason)))};
}

std::optional<ServerEvent> CompletionFormat::Nothing() const {
  return Event(ChoiceJson(0, "", "null", ""));
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
  return Chunk(JsonArray(entries), UsageJson(usage));
}

}  // namespace deltafin
