#include "coordinator/cli/prompt_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/utf8.h"

namespace deltafin {
namespace {

constexpr char kPromptGroup[] = "Prompt";
constexpr uint64_t kMaxPromptBytes = uint64_t{64} << 20;

}  // namespace

absl::Status CheckSystem(std::string_view text) {
  const std::optional<size_t> at = FirstInvalidUtf8(text);
  if (!at.has_value()) return absl::OkStatus();
  return UsageError(absl::StrCat("--system: byte ", *at, " is not UTF-8"));
}

absl::StatusOr<Thinking> ParseThinking(const std::string& text) {
  if (text == "off") return Thinking::kOff;
  if (text == "low") return Thinking::kLow;
  if (text == "high") return Thinking::kHigh;
  if (text == "max") return Thinking::kMax;
  return UsageError("--thinking: '" + text +
                    "': expected low, high, max or off");
}

ChatMessage TextMessage(ChatRole role, std::string text) {
  ChatMessage message;
  message.role = role;
  message.content.push_back(std::move(text));
  return message;
}

absl::StatusOr<Prompt> ChatPrompt(const ChatRequest& chat,
                                  const Tokenizer& tokenizer) {
  Prompt prompt;
  ASSIGN_OR_RETURN(prompt.ids, EncodeChat(tokenizer, chat));
  prompt.chat = InitialChannel(chat.thinking);
  prompt.shared_tokens = CountSharedTokens(tokenizer, chat, prompt.ids);
  return prompt;
}

bool PromptFlags::Source::given() const { return option->count() > 0; }

void PromptFlags::AddTo(CLI::App& app) {
  const auto add = [&app](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kPromptGroup);
  };
  text_.option = add("--prompt", text_.value, "Text to continue");
  file_.option = add("--prompt-file", file_.value,
                     "File with the text; - is standard input");
  ids_.option = add("--prompt-ids", ids_.value, "Token ids to continue: 1,2,3");
  app.add_flag("--bos", bos_, "Put the beginning-of-text token first")
      ->group(kPromptGroup);
  app.add_flag("--chat", chat_, "The prompt is what a user says: answer it")
      ->group(kPromptGroup);
  add("--system", system_, "With --chat: instructions that come first");
  add("--thinking", thinking_,
      "With --chat: how much to think: low, high, max (default) or off");
}

absl::Status PromptFlags::Check() const {
  const int given = int{text_.given()} + int{file_.given()} + int{ids_.given()};
  if (given != 1) {
    return UsageError(
        "give exactly one of --prompt, --prompt-file and --prompt-ids");
  }
  if (ids_.given() && chat_) {
    return UsageError("--chat needs text: --prompt or --prompt-file");
  }
  if (!chat_ && (system_.has_value() || thinking_.has_value())) {
    return UsageError("--system and --thinking need --chat");
  }
  if (system_.has_value()) RETURN_IF_ERROR(CheckSystem(*system_));
  if (thinking_.has_value()) {
    RETURN_IF_ERROR(ParseThinking(*thinking_).status());
  }
  if (ids_.given()) return ParseIds().status();
  return absl::OkStatus();
}

absl::StatusOr<std::string> PromptFlags::Text() const {
  if (text_.given()) return text_.value;
  if (file_.value == "-") {
    return ReadToEnd(STDIN_FILENO, kMaxPromptBytes, "standard input");
  }
  return ReadFile(file_.value, kMaxPromptBytes);
}

absl::StatusOr<std::vector<int32_t>> PromptFlags::ParseIds() const {
  std::vector<int32_t> ids;
  const char* at = ids_.value.data();
  const char* const end = at + ids_.value.size();
  while (at < end) {
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    const bool separated = rest == end || (*rest == ',' && rest + 1 < end);
    if (error != std::errc() || !separated) {
      return UsageError("--prompt-ids: expected numbers: 1,2,3");
    }
    ids.push_back(id);
    at = rest == end ? end : rest + 1;
  }
  return ids;
}

absl::StatusOr<Prompt> PromptFlags::EncodeText(
    const Tokenizer& tokenizer) const {
  Prompt prompt;
  if (ids_.given()) {
    ASSIGN_OR_RETURN(prompt.ids, ParseIds());
    return prompt;
  }
  ASSIGN_OR_RETURN(std::string text, Text());
  if (!chat_) {
    ASSIGN_OR_RETURN(prompt.ids, tokenizer.Encode(text));
    return prompt;
  }
  if (text.empty()) return prompt;
  ChatRequest chat;
  if (system_.has_value()) {
    chat.messages.push_back(TextMessage(ChatRole::kSystem, *system_));
  }
  chat.messages.push_back(TextMessage(ChatRole::kUser, std::move(text)));
  if (thinking_.has_value()) {
    ASSIGN_OR_RETURN(chat.thinking, ParseThinking(*thinking_));
  }
  return ChatPrompt(chat, tokenizer);
}

absl::StatusOr<Prompt> PromptFlags::Encode(const Tokenizer& tokenizer,
                                           const ModelSpec& spec) const {
  absl::StatusOr<Prompt> prompt = EncodeText(tokenizer);
  if (!prompt.ok()) return AddContext(prompt.status(), "prompt");
  if (bos_) prompt->ids.insert(prompt->ids.begin(), spec.bos_token_id);
  if (prompt->ids.empty()) {
    return absl::InvalidArgumentError("the prompt is empty");
  }
  return prompt;
}

}  // namespace deltafin
