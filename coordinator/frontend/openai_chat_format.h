// coordinator/frontend/openai_chat_format.h
//
// The answer of /v1/chat/completions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/openai_choices_format.h"

namespace deltafin {

class ChatFormat final : public ChoicesFormat {
 public:
  // `vocabulary` must outlive this.
  ChatFormat(AnswerIdentity identity, ChoicesFormatOptions options,
             const Vocabulary& vocabulary, int num_choices);

  std::vector<ServerEvent> Piece(int choice, const ChoiceText& piece) override;
  std::vector<ServerEvent> ChoiceEnd(int choice, FinishReason reason) override;
  std::optional<ServerEvent> Nothing() const override;
  std::string Whole(std::span<const Choice> choices,
                    const AnswerUsage& usage) const override;

 private:
  // What a stream has shown of a choice.
  struct Shown {
    bool has_begun = false;
    bool has_calls = false;
  };

  std::string Chunk(std::string_view choices,
                    std::string_view usage) const override;
  ServerEvent DeltaEvent(int choice, std::string_view delta,
                         std::string_view logprobs,
                         std::string_view finish_reason) const;
  std::string DeltaJson(const ChoiceText& piece, bool is_first) const;
  std::string CallJson(const ToolCallDelta& call, bool in_stream) const;
  std::string MessageJson(const ChoiceText& text) const;
  std::string LogprobsJson(std::span<const ScoredToken> tokens) const;
  std::string TokenJson(int32_t id, float logprob,
                        std::string_view further) const;

  std::vector<Shown> shown_;
};

}  // namespace deltafin
