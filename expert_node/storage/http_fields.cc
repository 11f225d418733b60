#include "expert_node/storage/http_fields.h"

#include <algorithm>
#include <array>

namespace deltafin {
namespace {

constexpr uint64_t kMostSeconds = uint64_t{1} << 40;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) {
                      return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
                    });
}

// Whether the parameters after a link's target say rel="next".
bool IsNext(std::string_view parameters) {
  while (!parameters.empty()) {
    const size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string_view one = Trimmed(parameters.substr(0, end));
    if (one == "rel=\"next\"" || one == "rel=next") return true;
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return false;
}

}  // namespace

std::optional<uint64_t> ParseDecimal(std::string_view text) {
  if (text.empty() || text.size() > 19) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  text = Trimmed(text);
  if (!StartsWithIgnoringCase(text, "bytes ")) return std::nullopt;
  text = Trimmed(text.substr(6));
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = ParseDecimal(text.substr(0, dash));
  const auto last = ParseDecimal(text.substr(dash + 1, slash - dash - 1));
  const auto total = ParseDecimal(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) {
    return std::nullopt;
  }
  return ContentRange{*first, *last, *total};
}

std::string NextLink(std::string_view link) {
  while (true) {
    const size_t open = link.find('<');
    if (open == link.npos) return "";
    const size_t close = link.find('>', open);
    if (close == link.npos) return "";
    const size_t end = std::min(link.find(",", close), link.size());
    if (IsNext(link.substr(close + 1, end - close - 1))) {
      return std::string(link.substr(open + 1, close - open - 1));
    }
    link.remove_prefix(end);
  }
}

std::optional<absl::Duration> ParseRetryAfter(std::string_view text,
                                              absl::Time now) {
  text = Trimmed(text);
  if (const auto seconds = ParseDecimal(text)) {
    return absl::Seconds(std::min(*seconds, kMostSeconds));
  }
  absl::Time date;
  std::string error;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT",
                       absl::string_view(text.data(), text.size()), &date,
                       &error)) {
    return std::nullopt;
  }
  return std::max(date - now, absl::ZeroDuration());
}

std::string NormalizedEtag(std::string_view etag) {
  etag = Trimmed(etag);
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  constexpr std::array<std::string_view, 8> kSuffixes = {
      "--gzip", "-gzip", ";gzip", "-br", ";br", "-zstd", ";zstd", "-df"};
  for (const std::string_view suffix : kSuffixes) {
    if (etag.ends_with(suffix)) {
      etag.remove_suffix(suffix.size());
      break;
    }
  }
  return std::string(etag);
}

}  // namespace deltafin
