// expert_node/storage/http_url.h
//
// URLs as far as needed to know whom a request goes to, and where a redirect
// may lead. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace deltafin {

struct HttpUrl {
  bool https = true;
  std::string host;  // lower case; IPv6 in brackets
  int port = 443;
  std::string target = "/";  // path and query, without fragment

  std::string origin() const;  // "https://host:port"
  std::string text() const { return origin() + target; }
  // 127.0.0.0/8, [::1] or localhost.
  bool loopback() const;
};

// Errors: INVALID_ARGUMENT for another scheme, user information, bytes that no
// URL has. The query is never quoted: it may hold a signature.
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text);

// Scheme, host and port are the same.
bool SameOrigin(const HttpUrl& a, const HttpUrl& b);

// Where `location`, absolute or relative, leads from `base`. Errors:
// PERMISSION_DENIED from https to http, and from a loopback address to http on
// another machine; INVALID_ARGUMENT as above.
absl::StatusOr<HttpUrl> RedirectTarget(const HttpUrl& base,
                                       std::string_view location);

// Percent-encodes all but unreserved characters and '/'.
std::string EscapePath(std::string_view path);

}  // namespace deltafin
