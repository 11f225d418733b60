#include "coordinator/frontend/chat_segments.h"

#include "absl/strings/str_replace.h"
#include "coordinator/frontend/chat_tokens.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

std::string EscapeAttribute(std::string_view value) {
  return absl::StrReplaceAll(absl::string_view(value.data(), value.size()),
                             {{"&", "&amp;"}, {"\"", "&quot;"}});
}

void ChatSegments::Control(std::string_view spelling) {
  segments_.push_back({std::string(spelling), SegmentKind::kControl});
}

void ChatSegments::Text(std::string_view text) {
  if (text.empty()) return;
  segments_.push_back({std::string(text), SegmentKind::kText});
}

// Each attribute is four segments (docs/model.md section 9).
void ChatSegments::Open(std::string_view tag,
                        const ChatAttributes& attributes) {
  Control(kOpenToken);
  Text(tag);
  for (const auto& [key, value] : attributes) {
    Text(fmt::format(" {}", key));
    Text("=\"");
    Text(EscapeAttribute(value));
    Text("\"");
  }
  Control(kSepToken);
}

void ChatSegments::Close(std::string_view tag) {
  Control(kCloseToken);
  Text(tag);
  Control(kSepToken);
}

void ChatSegments::Element(std::string_view tag,
                           const ChatAttributes& attributes,
                           std::span<const std::string> parts) {
  Open(tag, attributes);
  for (const std::string& part : parts) Text(part);
  Close(tag);
}

void ChatSegments::Note(std::string_view type, std::string body) {
  Element("message", {{"role", "system"}, {"type", std::string(type)}},
          std::span(&body, 1));
  Control(kEndOfMessageToken);
}

}  // namespace deltafin
