// coordinator/frontend/chat_segments.h
//
// Builds the segments of the chat format's elements. Thread-compatible.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

using ChatAttributes = std::vector<std::pair<std::string_view, std::string>>;

// The text between an attribute's quotation marks.
std::string EscapeAttribute(std::string_view value);

class ChatSegments {
 public:
  void Control(std::string_view spelling);
  void Text(std::string_view text);  // empty text makes no segment
  void Open(std::string_view tag, const ChatAttributes& attributes = {});
  void Close(std::string_view tag);
  void Element(std::string_view tag, const ChatAttributes& attributes,
               std::span<const std::string> parts);
  // A whole system message of some type.
  void Note(std::string_view type, std::string body);

  std::vector<Segment> Take() { return std::move(segments_); }

 private:
  std::vector<Segment> segments_;
};

}  // namespace deltafin
