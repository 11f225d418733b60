// coordinator/frontend/openai_chat_format.h
//
// The answer of /v1/chat/completions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/openai_answer.h"

namespace deltafin {

struct ChatFormatOptions {
  bool include_usage = false;  // a last event with the usage
  bool has_logprobs = false;
};

class ChatFormat final : public AnswerFormat {
 public:
  // `vocabulary` must outlive this.
  ChatFormat(AnswerIdentity identity, ChatFormatOptions options,
             const Vocabulary& vocabulary, int num_choices);

  std::vector<ServerEvent> Piece(int choice, const ChoiceText& piece) override;
  std::vector<ServerEvent> ChoiceEnd(int choice, FinishReason reason) override;
  std::vector<ServerEvent> End(const AnswerUsage& usage) override;
  std::vector<ServerEvent> Error(const absl::Status& status) override;
  std::optional<ServerEvent> Nothing() const override;
  std::string Whole(std::span<const Choice> choices,
                    const AnswerUsage& usage) const override;

 private:
  // What a stream has shown of a choice.
  struct Shown {
    bool has_begun = false;
    bool has_calls = false;
  };

  std::string Chunk(std::string_view choices, std::string_view usage) const;
  std::string DeltaChunk(int choice, std::string_view delta,
                         std::string_view logprobs,
                         std::string_view finish_reason) const;
  std::string DeltaJson(const ChoiceText& piece, bool is_first) const;
  std::string CallJson(const ToolCallDelta& call, bool in_stream) const;
  std::string MessageJson(const ChoiceText& text) const;
  std::string LogprobsJson(std::span<const ScoredToken> tokens) const;
  std::string TokenJson(int32_t id, float logprob,
                        std::string_view further) const;

  const AnswerIdentity identity_;
  const ChatFormatOptions options_;
  const Vocabulary& vocabulary_;
  std::vector<Shown> shown_;
};

}  // namespace deltafin
