#include "expert_node/storage/hub_client.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "expert_node/storage/http_fields.h"
#include "expert_node/storage/http_url.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr int kMaxRedirects = 5;
constexpr int kMaxPages = 1000;
constexpr size_t kMaxFiles = 200000;
constexpr size_t kMaxPageBytes = 16 << 20;

// The beginning of a body, fit for a message.
std::string Quoted(std::string_view text) {
  std::string quoted(text.substr(0, 200));
  for (char& c : quoted) {
    if (c < ' ' || c > '~') c = ' ';
  }
  return quoted;
}

bool IsDigest(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

absl::Status Changed(const HubFile& file, std::string_view now) {
  return absl::DataLossError(fmt::format(
      "{} changed meanwhile: the list of files said {} bytes, {}, now it is {}",
      file.name, file.bytes, file.etag, Quoted(now)));
}

// Whether the answer to a request for the file's place tells the listed file.
absl::Status CheckIdentity(const HubFile& file, const std::string& commit,
                           const HttpAnswer& answer) {
  const std::string_view at = answer.field("x-repo-commit");
  if (!at.empty() && at != commit) return Changed(file, at);
  const std::string_view size = answer.field("x-linked-size");
  if (!size.empty() && ParseDecimal(size) != file.bytes) {
    return Changed(file, size);
  }
  std::string_view etag = answer.field("x-linked-etag");
  if (etag.empty() && answer.status == 200) etag = answer.field("etag");
  const std::string digest = NormalizedEtag(etag);
  if (IsDigest(digest) && digest != file.etag) return Changed(file, digest);
  return absl::OkStatus();
}

}  // namespace

HubClient::HubClient(const HubOptions& options, HttpRangeReader& reader,
                     RequestPace& pace)
    : options_(options), reader_(reader), pace_(pace) {}

absl::StatusOr<std::string> HubClient::ResolveRevision() {
  const ModelRevision& model = options_.model;
  std::string url =
      fmt::format("{}/api/models/{}/revision/{}", options_.access.endpoint,
                  EscapePath(model.repository), EscapePath(model.revision));
  ASSIGN_OR_RETURN(const HttpAnswer answer,
                   Ask(TransferRequest::Method::kGet, url, "the revision"));
  return ParseCommit(answer.text);
}

absl::StatusOr<std::vector<HubFile>> HubClient::ListFiles(
    const std::string& commit) {
  std::vector<HubFile> files;
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true",
                                options_.access.endpoint,
                                EscapePath(options_.model.repository), commit);
  for (int page = 0; !url.empty(); ++page) {
    ASSIGN_OR_RETURN(const HttpAnswer answer, Ask(TransferRequest::Method::kGet,
                                                  url, "the list of files"));
    ASSIGN_OR_RETURN(std::vector<HubFile> more, ParseTreePage(answer.text));
    std::move(more.begin(), more.end(), std::back_inserter(files));
    if (page == kMaxPages || files.size() > kMaxFiles) {
      return absl::DataLossError("the list of files has no end");
    }
    const std::string next = NextLink(answer.field("link"));
    if (next.empty()) break;
    ASSIGN_OR_RETURN(const HttpUrl base, ParseHttpUrl(url));
    ASSIGN_OR_RETURN(const HttpUrl target, RedirectTarget(base, next));
    url = target.text();
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(files.begin(), files.end(),
                         [](auto& a, auto& b) { return a.name == b.name; });
  if (twice == files.end()) return files;
  return absl::DataLossError("the list of files has twice " + twice->name);
}

absl::StatusOr<std::string> HubClient::Locate(const std::string& commit,
                                              const HubFile& file) {
  std::string url = fmt::format("{}/{}/resolve/{}/{}", options_.access.endpoint,
                                EscapePath(options_.model.repository), commit,
                                EscapePath(file.name));
  ASSIGN_OR_RETURN(const HttpAnswer answer,
                   Ask(TransferRequest::Method::kHead, url, file.name));
  RETURN_IF_ERROR(CheckIdentity(file, commit, answer));
  if (answer.status / 100 == 2) return url;
  ASSIGN_OR_RETURN(const HttpUrl base, ParseHttpUrl(url));
  ASSIGN_OR_RETURN(const HttpUrl target,
                   RedirectTarget(base, answer.field("location")));
  return target.text();
}

std::vector<std::string> HubClient::HeaderLines(const std::string& url) const {
  std::vector<std::string> lines = {"User-Agent: deltafin"};
  const auto to = ParseHttpUrl(url);
  const bool safe = to.ok() && (to->https || to->loopback());
  if (safe && IsHub(url) && !options_.access.token.empty()) {
    lines.push_back("Authorization: Bearer " + options_.access.token);
  }
  return lines;
}

bool HubClient::IsHub(const std::string& url) const {
  const auto to = ParseHttpUrl(url);
  const auto hub = ParseHttpUrl(options_.access.endpoint);
  return to.ok() && hub.ok() && SameOrigin(*to, *hub);
}

absl::Status HubClient::Refusal(const HttpAnswer& answer,
                                std::string_view what) const {
  const std::string& repository = options_.model.repository;
  const std::string_view reason = answer.field("x-error-code");
  const std::string said =
      fmt::format("{}: status {}: {}", what, answer.status,
                  Quoted(answer.text.empty() ? answer.field("x-error-message")
                                             : answer.text));
  if (IsTransient(answer.status)) return absl::UnavailableError(said);
  if (answer.status == 401 || answer.status == 403) {
    const bool has_token = !options_.access.token.empty();
    return absl::PermissionDeniedError(fmt::format(
        "{}. {}", said,
        reason == "GatedRepo" || has_token
            ? fmt::format("Ask for access to {} on its page, and set HF_TOKEN "
                          "to a token of that account",
                          repository)
            : fmt::format("Check the name {}; if it is right, set HF_TOKEN",
                          repository)));
  }
  if (answer.status == 404 || answer.status == 410) {
    return absl::NotFoundError(fmt::format("{}. Check the names {} and {}",
                                           said, repository,
                                           options_.model.revision));
  }
  if (answer.status == 416) {
    return absl::DataLossError(said + ". The file changed meanwhile");
  }
  return absl::FailedPreconditionError(said);
}

absl::StatusOr<HttpAnswer> HubClient::AskOnce(TransferRequest::Method method,
                                              std::string& url) {
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    TransferRequest request;
    request.method = method;
    request.url = url;
    request.header_lines = HeaderLines(url);
    request.max_text_bytes = kMaxPageBytes;
    ASSIGN_OR_RETURN(HttpAnswer answer, reader_.Run(std::move(request)));
    if (answer.status / 100 != 3) return answer;
    ASSIGN_OR_RETURN(const HttpUrl base, ParseHttpUrl(url));
    ASSIGN_OR_RETURN(const HttpUrl target,
                     RedirectTarget(base, answer.field("location")));
    if (!SameOrigin(base, target)) return answer;
    url = target.text();
  }
  return absl::FailedPreconditionError(
      fmt::format("more than {} redirects", kMaxRedirects));
}

absl::StatusOr<HttpAnswer> HubClient::Ask(TransferRequest::Method method,
                                          std::string& url,
                                          std::string_view what) {
  if (!IsHub(url)) {
    return absl::PermissionDeniedError(
        fmt::format("{}: the Hub points to another host", what));
  }
  RequestTries tries(pace_);
  RETURN_IF_ERROR(tries.Begin());
  const std::string first = url;
  while (true) {
    url = first;
    absl::StatusOr<HttpAnswer> answer = AskOnce(method, url);
    const bool head = method == TransferRequest::Method::kHead;
    if (answer.ok() &&
        (answer->status / 100 == 2 || (head && answer->status / 100 == 3))) {
      pace_.budget().Succeeded();
      return answer;
    }
    const absl::Status failure = answer.ok()
                                     ? Refusal(*answer, what)
                                     : AddContext(answer.status(), what);
    RETURN_IF_ERROR(tries.Again(failure, answer.ok() ? &*answer : nullptr));
  }
}

}  // namespace deltafin
