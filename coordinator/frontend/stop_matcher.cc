#include "coordinator/frontend/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::vector<size_t> Borders(std::string_view text) {
  std::vector<size_t> borders(text.size() + 1, 0);
  size_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[border] != text[i]) border = borders[border];
    if (text[border] == text[i]) ++border;
    borders[i + 1] = border;
  }
  return borders;
}

}  // namespace

absl::StatusOr<StopMatcher> StopMatcher::Create(
    std::vector<std::string> stops) {
  if (stops.size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(
        fmt::format("stop: {} strings; at most {} are supported", stops.size(),
                    kMaxStopStrings));
  }
  StopMatcher matcher;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty() || stops[i].size() > kMaxStopBytes ||
        FirstInvalidUtf8(stops[i])) {
      return absl::InvalidArgumentError(fmt::format(
          "stop[{}]: not UTF-8 text of 1 to {} bytes", i, kMaxStopBytes));
    }
    std::vector<size_t> failure = Borders(stops[i]);
    matcher.patterns_.push_back({std::move(stops[i]), std::move(failure), 0});
  }
  return matcher;
}

size_t StopMatcher::Advance(char byte) {
  size_t longest = 0;
  size_t longest_match = 0;
  for (Pattern& p : patterns_) {
    while (p.state > 0 && p.text[p.state] != byte) p.state = p.failure[p.state];
    if (p.text[p.state] == byte) ++p.state;
    longest = std::max(longest, p.state);
    if (p.state == p.text.size()) {
      longest_match = std::max(longest_match, p.state);
    }
  }
  matched_ = longest_match > 0;
  return matched_ ? longest_match : longest;
}

std::string StopMatcher::Add(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (matched_) break;
    pending_ += byte;
    const size_t held = Advance(byte);
    out.append(pending_, 0, pending_.size() - held);
    pending_.erase(0, pending_.size() - held);
  }
  return out;
}

std::string StopMatcher::Flush() {
  if (matched_) return "";
  return std::exchange(pending_, "");
}

}  // namespace deltafin
