#include "expert_node/storage/hub_listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
constexpr size_t kMaxNameBytes = 1024;

absl::Status Bad(const std::string& what) {
  return absl::DataLossError("the Hub's answer: " + what);
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Relative, and inside wherever it is put.
bool IsSafeName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if ((c >= 0 && c < ' ') || c == '\x7f' || c == '\\') return false;
  }
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == name.npos) return true;
    name.remove_prefix(slash + 1);
  }
}

std::optional<std::string> StringAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<uint64_t> SizeAt(const Json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned()) {
    return std::nullopt;
  }
  const auto size = found->get<uint64_t>();
  return size <= kMaxFileBytes ? std::optional(size) : std::nullopt;
}

absl::StatusOr<HubFile> ParseFile(const Json& entry) {
  const auto path = StringAt(entry, "path");
  if (!path || !IsSafeName(*path)) {
    return Bad("a file without a path that can be used");
  }
  HubFile file;
  file.name = *path;
  const auto lfs = entry.find("lfs");
  const bool large = lfs != entry.end() && lfs->is_object();
  const auto size = SizeAt(large ? *lfs : entry);
  if (!size) return Bad(file.name + ": no size in range");
  file.bytes = *size;
  file.etag = StringAt(large ? *lfs : entry, "oid").value_or("");
  if (!IsHex(file.etag, large ? 64 : 40)) {
    return Bad(file.name + ": \"oid\" is no digest");
  }
  if (large) file.sha256 = file.etag;
  return file;
}

}  // namespace

absl::StatusOr<std::string> ParseCommit(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Bad("no JSON object");
  const auto commit = StringAt(parsed, "sha");
  if (!commit || !IsHex(*commit, 40)) return Bad("\"sha\" is no commit");
  return *commit;
}

absl::StatusOr<std::vector<HubFile>> ParseTreePage(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) return Bad("the list of files is no JSON array");
  std::vector<HubFile> files;
  for (const Json& entry : parsed) {
    const auto type =
        entry.is_object() ? StringAt(entry, "type") : std::nullopt;
    if (!type) return Bad("an entry of the list of files without \"type\"");
    if (*type != "file") continue;
    ASSIGN_OR_RETURN(HubFile file, ParseFile(entry));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace deltafin
