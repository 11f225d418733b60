#include "coordinator/cli/endpoint_client.h"

#include <curl/curl.h>

#include <memory>
#include <string_view>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr long kTimeoutSeconds = 600;
constexpr size_t kMaxAnswerBytes = size_t{256} << 20;
constexpr size_t kShownBytes = 500;

struct FreeCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

size_t Append(char* bytes, size_t, size_t size, void* answer) {
  std::string& text = *static_cast<std::string*>(answer);
  if (text.size() + size > kMaxAnswerBytes) return 0;
  text.append(bytes, size);
  return size;
}

bool IsThisMachine(std::string_view url) {
  for (const std::string_view host :
       {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    if (!url.starts_with(host)) continue;
    const std::string_view rest = url.substr(host.size());
    if (rest.empty() || rest[0] == ':' || rest[0] == '/') return true;
  }
  return false;
}

absl::Status CheckEndpoint(const Endpoint& endpoint) {
  const std::string_view url = endpoint.url;
  const bool is_tls = url.starts_with("https://");
  if (!is_tls && !url.starts_with("http://")) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected http:// or https://", url));
  }
  if (is_tls || endpoint.key.empty() || IsThisMachine(url)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: refused to send a key without TLS", url));
}

}  // namespace

absl::StatusOr<std::string> PostJson(const Endpoint& endpoint,
                                     const std::string& path,
                                     const std::string& body) {
  if (const absl::Status status = CheckEndpoint(endpoint); !status.ok()) {
    return status;
  }
  const std::unique_ptr<CURL, FreeCurl> curl(curl_easy_init());
  std::unique_ptr<curl_slist, FreeCurl> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"));
  if (!endpoint.key.empty()) {
    curl_slist_append(headers.get(),
                      ("Authorization: Bearer " + endpoint.key).c_str());
  }
  const std::string url = endpoint.url + path;
  std::string answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, kTimeoutSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        fmt::format("{}: {}", url, curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return answer;
  return absl::FailedPreconditionError(fmt::format(
      "{}: status {}: {}", url, status, answer.substr(0, kShownBytes)));
}

}  // namespace deltafin
