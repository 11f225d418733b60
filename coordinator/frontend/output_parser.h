// coordinator/frontend/output_parser.h
//
// Splits what the model writes in a chat into reasoning, answer and tool calls
// (docs/model.md section 9). Structure is recognised by token id, never by
// text. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/chat_request.h"
#include "coordinator/frontend/chat_tokens.h"
#include "coordinator/frontend/detokenizer.h"
#include "coordinator/frontend/tool_arguments.h"

namespace deltafin {

// Elements of an assistant message.
enum class OutputChannel : uint8_t {
  kNone,  // between elements: text there is dropped
  kThink,
  kResponse,
  kTools,
};

// The channel that a rendered prompt ends in.
inline OutputChannel InitialChannel(Thinking thinking) {
  return thinking == Thinking::kOff ? OutputChannel::kResponse
                                    : OutputChannel::kThink;
}

// What was added to a tool call.
struct ToolCallDelta {
  int index = 0;     // of the call in the message, from 0
  std::string name;  // where the call begins; else empty
  bool begins = false;
  std::string arguments;  // more of the JSON object
};

// What a token is part of.
enum class OutputPart : uint8_t { kStructure, kReasoning, kContent, kToolCall };

// Whole characters.
struct ParsedText {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> calls;
  OutputPart part = OutputPart::kStructure;  // of the token
};

// How the message came to its end.
enum class OutputEnd : uint8_t { kComplete, kCut };

// Elements that are not closed end where the next one of their level opens, or
// with the message; a close without its element is ignored. The texts and the
// calls' additions, joined, do not depend on how they came.
class OutputParser {
 public:
  // `vocabulary` must outlive this.
  OutputParser(const Vocabulary& vocabulary, const ChatTokens& tokens,
               OutputChannel initial);

  // REQUIRES: 0 <= id < vocabulary.size(). Tokens after the end of the message
  // add nothing.
  ParsedText Add(int32_t id);

  // Ends the output. A tool call still open counts if the model ended the
  // message (kComplete), and does not if it was cut.
  ParsedText Finish(OutputEnd end);

  // Complete calls so far, in order, with ids call_1, call_2, ...
  const std::vector<ToolCall>& tool_calls() const { return tool_calls_; }

 private:
  // Which side of a tag the tokens are on.
  enum class Place : uint8_t { kText, kOpenTag, kCloseTag };

  struct Call {
    ToolCall call;  // so far
    ToolArguments arguments;
  };

  void AddText(std::string_view text, ParsedText& out);
  void FlushText(ParsedText& out);
  void EndTag(ParsedText& out);
  void Open(std::string_view tag, ParsedText& out);
  void Close(std::string_view tag, ParsedText& out);
  void OpenInTools(std::string_view tag, ParsedText& out);
  void BeginCall(std::string name, ParsedText& out);
  void AddArguments(std::string_view json, ParsedText& out);
  void EndCall(ParsedText& out);
  void EndMessage(ParsedText& out);
  OutputPart PartOfText() const;

  const ChatTokens tokens_;
  Detokenizer detokenizer_;
  OutputChannel channel_;
  Place place_ = Place::kText;
  bool ended_ = false;
  std::string tag_;           // so far
  std::optional<Call> call_;  // open
  int num_calls_ = 0;         // begun
  std::vector<ToolCall> tool_calls_;
};

}  // namespace deltafin
