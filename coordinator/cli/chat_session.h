// coordinator/cli/chat_session.h
//
// The conversation of `deltafin chat`: what was said so far, and what a line
// that the user types means. No terminal, no model. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/frontend/chat_request.h"

namespace deltafin {

enum class ChatAction : uint8_t {
  kSay,   // the line is a message: answer request()
  kNone,  // nothing to answer; notice() may say something
  kQuit,
};

class ChatSession {
 public:
  ChatSession(std::string system, Thinking thinking);

  // Takes a line. Commands: /reset, /system TEXT, /quit, /help. A line of
  // kSay is part of the conversation until Answer or Forget.
  ChatAction TakeLine(std::string_view line);

  // For the user, after TakeLine; may be empty.
  const std::string& notice() const { return notice_; }

  const ChatRequest& request() const { return request_; }

  // The model's reply to the last message.
  void Answer(std::string content, std::string reasoning);
  // The last message got no reply: as if it had not been said.
  void Forget();

 private:
  void Reset();

  std::string system_;
  ChatRequest request_;
  std::string notice_;
};

}  // namespace deltafin
