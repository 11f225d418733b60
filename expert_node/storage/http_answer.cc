#include "expert_node/storage/http_answer.h"

#include <algorithm>
#include <cctype>

#include "expert_node/storage/http_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxFields = 256;
constexpr size_t kMaxQuoted = 100;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(c & 0xff));
  return lower;
}

absl::Status Instead(const WantedRange& wanted, const std::string& came) {
  return absl::DataLossError(
      fmt::format("{} instead of bytes {}-{} of {}", came, wanted.offset,
                  wanted.offset + wanted.out.size() - 1, wanted.file_bytes));
}

absl::Status CheckLength(const WantedRange& wanted, const HttpAnswer& answer) {
  const std::string_view length = answer.field("content-length");
  if (length.empty() || ParseDecimal(length) == wanted.out.size()) {
    return absl::OkStatus();
  }
  return Instead(
      wanted, fmt::format("a body of {} bytes", length.substr(0, kMaxQuoted)));
}

}  // namespace

std::string_view HttpAnswer::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : found->second;
}

void HttpAnswer::AddHeaderLine(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    const size_t space = line.find(' ');
    if (space != line.npos) {
      const auto code = ParseDecimal(line.substr(space + 1, 3));
      status = code ? static_cast<int>(*code) : 0;
    }
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || fields.size() >= kMaxFields) return;
  fields[LowerCase(Trimmed(line.substr(0, colon)))] =
      Trimmed(line.substr(colon + 1));
}

absl::Status CheckRangeAnswer(const WantedRange& wanted,
                              const HttpAnswer& answer) {
  const std::string_view encoding = answer.field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Instead(wanted, fmt::format("a body encoded with {}",
                                       encoding.substr(0, kMaxQuoted)));
  }
  if (LowerCase(answer.field("content-type")).starts_with("multipart/")) {
    return Instead(wanted, "an answer of several parts");
  }
  if (answer.status == 200) {
    if (wanted.whole_file()) return CheckLength(wanted, answer);
    return Instead(wanted, "the whole file (status 200)");
  }
  if (answer.status != 206) {
    return Instead(wanted, fmt::format("status {}", answer.status));
  }
  const std::string_view field = answer.field("content-range");
  const auto range = ParseContentRange(field);
  if (range && range->total != wanted.file_bytes) {
    return absl::DataLossError(
        fmt::format("the file has {} bytes now instead of {}: it changed "
                    "meanwhile",
                    range->total, wanted.file_bytes));
  }
  if (!range || range->first != wanted.offset ||
      range->last - range->first + 1 != wanted.out.size()) {
    return Instead(wanted,
                   field.empty()
                       ? "an answer without Content-Range"
                       : fmt::format("\"{}\"", field.substr(0, kMaxQuoted)));
  }
  return CheckLength(wanted, answer);
}

}  // namespace deltafin
