// coordinator/cli/prompt_flags.h
//
// The flags that say what the model is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/output_parser.h"
#include "coordinator/frontend/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace deltafin {

struct Prompt {
  std::vector<int32_t> ids;
  // The element that a chat prompt ends in; absent outside of chat.
  std::optional<OutputChannel> chat;
  // Of a chat: how many ids other chats share (CountSharedTokens).
  int64_t shared_tokens = 0;
};

// Instructions must be UTF-8. Errors: a usage error.
absl::Status CheckSystem(std::string_view text);

// low, high, max or off. Errors: a usage error.
absl::StatusOr<Thinking> ParseThinking(const std::string& text);

// The ids of a conversation that the model shall continue. Errors: those of
// the chat template and tokenizer.
absl::StatusOr<Prompt> ChatPrompt(const ChatRequest& chat,
                                  const Tokenizer& tokenizer);

// A message of plain text.
ChatMessage TextMessage(ChatRole role, std::string text);

class PromptFlags {
 public:
  // Adds the flags to the subcommand; both must outlive the parsing.
  void AddTo(CLI::App& app);

  // Errors: a usage error when the flags contradict each other.
  absl::Status Check() const;

  // The ids to begin with. REQUIRES: Check() is OK. Errors: INVALID_ARGUMENT
  // for an empty prompt, text that is not UTF-8, an id out of range; NOT_FOUND
  // for the file.
  absl::StatusOr<Prompt> Encode(const Tokenizer& tokenizer,
                                const ModelSpec& spec) const;

 private:
  absl::StatusOr<std::string> Text() const;
  absl::StatusOr<Prompt> EncodeText(const Tokenizer& tokenizer) const;
  absl::StatusOr<std::vector<int32_t>> ParseIds() const;

  // A source of the prompt: an empty value counts as given.
  struct Source {
    const CLI::Option* option = nullptr;
    std::string value;
    bool given() const;
  };

  Source text_, file_, ids_;
  std::optional<std::string> system_, thinking_;
  bool bos_ = false;
  bool chat_ = false;
};

}  // namespace deltafin
