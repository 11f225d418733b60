#include "coordinator/frontend/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/python_json.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::string_view Absl(std::string_view s) { return {s.data(), s.size()}; }

absl::Status LineError(int line, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", line, what));
}

template <typename Int>
std::optional<Int> ParseInt(std::string_view text) {
  Int value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// The bytes of a canonical base64 text, or nullopt.
std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string bytes;
  if (!absl::Base64Unescape(Absl(text), &bytes) || bytes.empty() ||
      absl::Base64Escape(bytes) != Absl(text)) {
    return std::nullopt;
  }
  return bytes;
}

std::string DefaultSpelling(int32_t id) {
  return fmt::format("<|reserved_token_{}|>", id);
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Parse(
    std::string_view ranks, std::string_view tokenizer_config) {
  Vocabulary vocabulary;
  vocabulary.offsets_.push_back(0);
  RETURN_IF_ERROR(AddContext(vocabulary.AddRanks(ranks), "tiktoken.model"));
  RETURN_IF_ERROR(AddContext(vocabulary.AddReserved(tokenizer_config),
                             "tokenizer_config.json"));
  return vocabulary;
}

void Vocabulary::AddToken(std::string_view bytes) {
  bytes_ += bytes;
  offsets_.push_back(bytes_.size());
}

absl::Status Vocabulary::AddRanks(std::string_view ranks) {
  ranks_.reserve(std::count(ranks.begin(), ranks.end(), '\n'));
  int line = 0;
  while (!ranks.empty()) {
    ++line;
    const size_t line_end = std::min(ranks.find('\n'), ranks.size());
    const std::string_view text = ranks.substr(0, line_end);
    ranks.remove_prefix(std::min(line_end + 1, ranks.size()));
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) {
      return LineError(line, "expected base64 and a rank");
    }
    const auto bytes = DecodeBase64(text.substr(0, space));
    if (!bytes) return LineError(line, "malformed base64");
    const auto rank = ParseInt<int32_t>(text.substr(space + 1));
    if (rank != line - 1) {
      return LineError(line, fmt::format("rank is not {}", line - 1));
    }
    if (!ranks_.emplace(*bytes, *rank).second) {
      return LineError(line, "duplicate token");
    }
    AddToken(*bytes);
  }
  base_ = line;
  for (int byte = 0; byte < 256; ++byte) {
    if (!FindRank(std::string(1, static_cast<char>(byte)))) {
      return absl::InvalidArgumentError(
          fmt::format("no token for the single byte {}", byte));
    }
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::AddReserved(std::string_view tokenizer_config) {
  ASSIGN_OR_RETURN(const JsonValue config, ParseJson(tokenizer_config));
  const JsonValue* decoder = config.Find("added_tokens_decoder");
  if (decoder == nullptr || decoder->kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError("no object added_tokens_decoder");
  }
  std::array<std::string, kNumReservedTokens> spellings;
  for (int i = 0; i < kNumReservedTokens; ++i) {
    spellings[i] = DefaultSpelling(base_ + i);
  }
  for (const auto& [key, entry] : decoder->members) {
    const auto id = ParseInt<int32_t>(key);
    const JsonValue* content = entry.Find("content");
    if (!id || *id < base_ || *id >= size()) {
      return absl::InvalidArgumentError(
          fmt::format("added_tokens_decoder: id {} is not a reserved one, "
                      "which are {} to {}",
                      key, base_, size() - 1));
    }
    if (content == nullptr || content->kind != JsonValue::Kind::kString ||
        content->text.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("added_tokens_decoder: id {} has no content", key));
    }
    spellings[*id - base_] = content->text;
  }
  for (const std::string& spelling : spellings) AddToken(spelling);
  return IndexReserved();
}

absl::Status Vocabulary::IndexReserved() {
  for (int32_t id = base_; id < size(); ++id) reserved_.push_back(id);
  std::stable_sort(
      reserved_.begin(), reserved_.end(),
      [this](int32_t a, int32_t b) { return Bytes(a) < Bytes(b); });
  for (size_t i = 1; i < reserved_.size(); ++i) {
    if (Bytes(reserved_[i - 1]) != Bytes(reserved_[i])) continue;
    return absl::InvalidArgumentError(
        fmt::format("added_tokens_decoder: ids {} and {} have the same content",
                    reserved_[i - 1], reserved_[i]));
  }
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::FindRank(std::string_view bytes) const {
  const auto found = ranks_.find(Absl(bytes));
  if (found == ranks_.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Vocabulary::FindControl(
    std::string_view spelling) const {
  const auto found = std::lower_bound(
      reserved_.begin(), reserved_.end(), spelling,
      [this](int32_t id, std::string_view s) { return Bytes(id) < s; });
  if (found == reserved_.end() || Bytes(*found) != spelling) {
    return std::nullopt;
  }
  return *found;
}

std::optional<int32_t> Vocabulary::ControlPrefix(std::string_view text) const {
  const auto first = std::lower_bound(
      reserved_.begin(), reserved_.end(), text.substr(0, 1),
      [this](int32_t id, std::string_view s) { return Bytes(id) < s; });
  for (auto it = first; it != reserved_.end(); ++it) {
    if (Bytes(*it)[0] != text[0]) break;
    if (text.starts_with(Bytes(*it))) return *it;
  }
  return std::nullopt;
}

}  // namespace deltafin
