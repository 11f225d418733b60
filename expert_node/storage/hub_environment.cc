#include "expert_node/storage/hub_environment.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/http_url.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxTokenBytes = 1024;

std::string Value(const EnvironmentLookup& lookup, const char* name) {
  const char* const value = lookup(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> TokenPaths(const EnvironmentLookup& lookup) {
  std::vector<std::string> paths;
  const auto add = [&](const char* variable, const std::string& rest) {
    const std::string base = Value(lookup, variable);
    if (!base.empty()) paths.push_back(base + rest);
  };
  add("HF_TOKEN_PATH", "");
  add("HF_HOME", "/token");
  add("XDG_CACHE_HOME", "/huggingface/token");
  add("HOME", "/.cache/huggingface/token");
  return paths;
}

absl::StatusOr<std::string> CheckedToken(std::string token,
                                         const std::string& from) {
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  token.erase(0, token.find_first_not_of(" \t\r\n"));
  const bool printable = std::all_of(
      token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (token.size() > kMaxTokenBytes || !printable) {
    return absl::InvalidArgumentError(
        from + " holds no token of Hugging Face (hf_...)");
  }
  return token;
}

absl::StatusOr<std::string> ReadToken(const EnvironmentLookup& lookup) {
  const std::string token = Value(lookup, "HF_TOKEN");
  if (!token.empty()) return CheckedToken(token, "HF_TOKEN");
  for (const std::string& path : TokenPaths(lookup)) {
    auto text = ReadFile(path, 2 * kMaxTokenBytes);
    if (absl::IsNotFound(text.status())) continue;
    RETURN_IF_ERROR(text.status());
    return CheckedToken(*std::move(text), path);
  }
  return "";
}

absl::StatusOr<std::string> CaFile(const EnvironmentLookup& lookup) {
  for (const char* const name :
       {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const std::string path = Value(lookup, name);
    if (path.empty()) continue;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is no file of certificates (PEM)", name, path));
  }
  return "";
}

// One part of OWNER/NAME, or a revision's part.
bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(c & 0xff) || c == '-' || c == '_' || c == '.';
         });
}

bool IsRevision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!IsName(text.substr(0, slash))) return false;
    if (slash == text.npos) return true;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

absl::StatusOr<HubAccess> ReadHubAccess(const EnvironmentLookup& lookup) {
  HubAccess access;
  std::string endpoint = Value(lookup, "HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.empty()) {
    RETURN_IF_ERROR(AddContext(ParseHttpUrl(endpoint).status(), "HF_ENDPOINT"));
    access.endpoint = endpoint;
  }
  ASSIGN_OR_RETURN(access.ca_file, CaFile(lookup));
  ASSIGN_OR_RETURN(access.token, ReadToken(lookup));
  return access;
}

absl::StatusOr<ModelRevision> ParseModelRevision(std::string_view text) {
  ModelRevision model;
  const size_t at = std::min(text.find('@'), text.size());
  const std::string_view repository = text.substr(0, at);
  const size_t slash = std::min(repository.find('/'), repository.size());
  model.repository = repository;
  if (at < text.size()) model.revision = text.substr(at + 1);
  if (slash == repository.size() || !IsName(repository.substr(0, slash)) ||
      !IsName(repository.substr(slash + 1)) || !IsRevision(model.revision)) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not OWNER/NAME or OWNER/NAME@REVISION", text));
  }
  return model;
}

}  // namespace deltafin
