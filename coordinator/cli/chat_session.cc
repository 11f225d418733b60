#include "coordinator/cli/chat_session.h"

#include <utility>

#include "coordinator/cli/prompt_flags.h"

namespace deltafin {
namespace {

constexpr char kHelp[] =
    "/reset forgets the conversation, /system TEXT sets instructions and "
    "begins anew, /quit ends; Ctrl-C stops a reply";

constexpr std::string_view kSystemCommand = "/system";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

}  // namespace

ChatSession::ChatSession(std::string system, Thinking thinking)
    : system_(std::move(system)) {
  request_.thinking = thinking;
  Reset();
}

void ChatSession::Reset() {
  request_.messages.clear();
  if (system_.empty()) return;
  request_.messages.push_back(TextMessage(ChatRole::kSystem, system_));
}

ChatAction ChatSession::TakeLine(std::string_view line) {
  notice_.clear();
  line = Trim(line);
  if (line.empty()) return ChatAction::kNone;
  if (line[0] != '/') {
    request_.messages.push_back(
        TextMessage(ChatRole::kUser, std::string(line)));
    return ChatAction::kSay;
  }
  if (line == "/quit") return ChatAction::kQuit;
  if (line == "/reset") {
    Reset();
    notice_ = "the conversation is forgotten";
  } else if (line == kSystemCommand || line.starts_with("/system ")) {
    system_ = Trim(line.substr(kSystemCommand.size()));
    Reset();
    notice_ = system_.empty()
                  ? "no instructions; the conversation begins anew"
                  : "instructions set; the conversation begins anew";
  } else {
    notice_ = kHelp;
  }
  return ChatAction::kNone;
}

void ChatSession::Answer(std::string content, std::string reasoning) {
  ChatMessage message = TextMessage(ChatRole::kAssistant, std::move(content));
  message.reasoning = std::move(reasoning);
  request_.messages.push_back(std::move(message));
}

void ChatSession::Forget() { request_.messages.pop_back(); }

}  // namespace deltafin
