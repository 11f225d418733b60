// common/net/http_target.h
//
// What an HTTP request is addressed to: its target, and the host that it names.
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deltafin {

// The target of a request line. Views into it.
struct HttpTarget {
  std::string_view authority;  // HOST[:PORT] of the absolute form, else empty
  std::string_view path;       // "/a/b", or "*"
  std::string_view query;      // without '?'
};

// "/path?query", "http://host/path?query" or "*". None for anything else, and
// for characters that are not visible ASCII or begin a fragment.
std::optional<HttpTarget> SplitHttpTarget(std::string_view target);

// The name or address in a Host header, in lower case, without port, brackets
// and final dot. None when it is none.
std::optional<std::string> HttpHostName(std::string_view host);

// Which hosts a server answers for. A browser sends the name that the page's
// address has; so a page of another site, whose name was made to point here
// (DNS rebinding), cannot pass for one of ours.
class HttpHostPolicy {
 public:
  // `listen_host`: the host that is listened on. Beyond loopback
  // (`is_public`) any IP address is allowed: nobody can point that elsewhere.
  HttpHostPolicy(std::string_view listen_host, bool is_public,
                 const std::vector<std::string>& names);

  // `name`: of HttpHostName. Names and addresses of loopback always are.
  bool Allows(std::string_view name) const;

 private:
  bool is_public_;
  std::vector<std::string> names_;
};

}  // namespace deltafin
