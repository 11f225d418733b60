// coordinator/frontend/openai_completion_format.h
//
// The answer of /v1/completions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/openai_choices_format.h"

namespace deltafin {

class CompletionFormat final : public ChoicesFormat {
 public:
  // `vocabulary` must outlive this.
  CompletionFormat(AnswerIdentity identity, ChoicesFormatOptions options,
                   const Vocabulary& vocabulary, int num_choices);

  std::vector<ServerEvent> Piece(int choice, const ChoiceText& piece) override;
  std::vector<ServerEvent> ChoiceEnd(int choice, FinishReason reason) override;
  std::optional<ServerEvent> Nothing() const override;
  std::string Whole(std::span<const Choice> choices,
                    const AnswerUsage& usage) const override;

 private:
  std::string Chunk(std::string_view choices,
                    std::string_view usage) const override;
  static std::string ChoiceJson(int choice, std::string_view text,
                                std::string_view logprobs,
                                std::string_view finish_reason);
  // `offset`: characters of the text before these tokens; moved past them.
  std::string LogprobsJson(std::span<const ScoredToken> tokens,
                           int64_t& offset) const;
  std::string TopJson(const ScoredToken& token) const;

  std::vector<int64_t> offsets_;  // of the stream, by choice
};

}  // namespace deltafin
