#include "expert_node/storage/http_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "common/base/status_macros.h"
#include "expert_node/storage/http_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxUrlBytes = 16384;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(c & 0xff));
  return lower;
}

bool IsHostByte(char c) {
  return std::isalnum(c & 0xff) || c == '.' || c == '-' || c == '_' ||
         c == ':' || c == '[' || c == ']';
}

absl::Status Invalid(const std::string& why) {
  return absl::InvalidArgumentError("URL " + why);
}

// Splits "host:port" or "[v6]:port" into `url`.
absl::Status TakeAuthority(std::string_view authority, HttpUrl& url) {
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  const bool has_port =
      colon != authority.npos && (bracket == authority.npos || colon > bracket);
  url.host = LowerCase(authority.substr(0, has_port ? colon : authority.npos));
  if (url.host.empty() ||
      !std::all_of(url.host.begin(), url.host.end(), IsHostByte) ||
      (url.host.find(':') != url.host.npos && url.host[0] != '[')) {
    return Invalid("without a valid host");
  }
  url.port = url.https ? 443 : 80;
  if (!has_port) return absl::OkStatus();
  const auto port = ParseDecimal(authority.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) {
    return Invalid("with a port that is none");
  }
  url.port = static_cast<int>(*port);
  return absl::OkStatus();
}

}  // namespace

std::string HttpUrl::origin() const {
  return fmt::format("{}://{}:{}", https ? "https" : "http", host, port);
}

bool HttpUrl::loopback() const {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  return host == "localhost" || host == "[::1]";
}

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text) {
  if (text.size() > kMaxUrlBytes) return Invalid("longer than 16 KiB");
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '\\') {
      return Invalid("with a byte that must be escaped");
    }
  }
  text = text.substr(0, text.find('#'));
  HttpUrl url;
  const std::string scheme = LowerCase(text.substr(0, text.find("://")));
  if (scheme != "https" && scheme != "http") {
    return Invalid("that is neither https nor http");
  }
  url.https = scheme == "https";
  text.remove_prefix(std::min(scheme.size() + 3, text.size()));
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  if (text.substr(0, end).find('@') != text.npos) {
    return Invalid("with a user name in it");
  }
  RETURN_IF_ERROR(TakeAuthority(text.substr(0, end), url));
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target = "/" + url.target;
  return url;
}

bool SameOrigin(const HttpUrl& a, const HttpUrl& b) {
  return a.https == b.https && a.host == b.host && a.port == b.port;
}

absl::StatusOr<HttpUrl> RedirectTarget(const HttpUrl& base,
                                       std::string_view location) {
  std::string text(location);
  const size_t scheme_end = text.find(':');
  if (text.empty()) return Invalid("of a redirect is empty");
  if (text.starts_with("//")) {
    text = (base.https ? "https:" : "http:") + text;
  } else if (text[0] == '/') {
    text = base.origin() + text;
  } else if (scheme_end > text.find_first_of("/?#")) {
    const std::string path = base.target.substr(0, base.target.find('?'));
    text = base.origin() + path.substr(0, path.rfind('/') + 1) + text;
  }
  ASSIGN_OR_RETURN(HttpUrl target, ParseHttpUrl(text));
  if (!target.https &&
      (base.https || (base.loopback() && !target.loopback()))) {
    return absl::PermissionDeniedError(
        fmt::format("{} redirects to plain http at {}, which is not followed",
                    base.origin(), target.host));
  }
  return target;
}

std::string EscapePath(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    if (std::isalnum(c & 0xff) ||
        std::string_view("-._~/").find(c) != std::string_view::npos) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", c & 0xff);
    }
  }
  return escaped;
}

}  // namespace deltafin
