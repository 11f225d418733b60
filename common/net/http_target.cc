#include "common/net/http_target.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>

namespace deltafin {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxPortBytes = 5;

bool IsVisible(char c) { return c > ' ' && c < 0x7f; }

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [](char a, char b) {
                      return a == std::tolower(static_cast<unsigned char>(b));
                    });
}

bool IsPort(std::string_view text) {
  return text.size() <= kMaxPortBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ||
         c == '.' || c == '_';
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

bool IsIpV4(const std::string& name, in_addr& address) {
  return inet_pton(AF_INET, name.c_str(), &address) == 1;
}

bool IsIpV6(const std::string& name, in6_addr& address) {
  return inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool IsIpAddress(const std::string& name) {
  in_addr v4;
  in6_addr v6;
  return IsIpV4(name, v4) || IsIpV6(name, v6);
}

bool NamesLoopback(const std::string& name) {
  if (name == "localhost") return true;
  in_addr v4;
  in6_addr v6;
  if (IsIpV4(name, v4)) return ntohl(v4.s_addr) >> 24 == 127;
  return IsIpV6(name, v6) && IN6_IS_ADDR_LOOPBACK(&v6);
}

// What follows "[": an IPv6 address, "]", perhaps a port.
std::optional<std::string> BracketedName(std::string_view rest) {
  const size_t end = rest.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view tail = rest.substr(end + 1);
  if (!tail.empty() && (tail.front() != ':' || !IsPort(tail.substr(1)))) {
    return std::nullopt;
  }
  std::string name = LowerCase(rest.substr(0, end));
  in6_addr address;
  // inet_pton would stop at a NUL.
  if (name.find('\0') != std::string::npos || !IsIpV6(name, address)) {
    return std::nullopt;
  }
  return name;
}

}  // namespace

std::optional<HttpTarget> SplitHttpTarget(std::string_view target) {
  if (!std::all_of(target.begin(), target.end(), IsVisible) ||
      target.find('#') != std::string_view::npos) {
    return std::nullopt;
  }
  HttpTarget split;
  if (target == "*") {
    split.path = target;
    return split;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!StartsWithIgnoringCase(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    split.authority = target.substr(0, target.find_first_of("/?"));
    if (split.authority.empty()) return std::nullopt;
    target.remove_prefix(split.authority.size());
    break;
  }
  const size_t question = target.find('?');
  split.path = target.substr(0, question);
  if (question != std::string_view::npos) {
    split.query = target.substr(question + 1);
  }
  // "http://host" and "http://host?query" ask for "/".
  if (split.path.empty() && !split.authority.empty()) split.path = "/";
  if (split.path.empty() || split.path.front() != '/') return std::nullopt;
  return split;
}

std::optional<std::string> HttpHostName(std::string_view host) {
  if (!host.empty() && host.front() == '[') {
    return BracketedName(host.substr(1));
  }
  const size_t colon = host.find(':');
  std::string_view name = host.substr(0, colon);
  if (colon != std::string_view::npos && !IsPort(host.substr(colon + 1))) {
    return std::nullopt;
  }
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  if (name.empty() || name.size() > kMaxNameBytes ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return std::nullopt;
  }
  return LowerCase(name);
}

HttpHostPolicy::HttpHostPolicy(std::string_view listen_host, bool is_public,
                               const std::vector<std::string>& names)
    : is_public_(is_public) {
  names_.push_back(LowerCase(listen_host));
  for (const std::string& name : names) names_.push_back(LowerCase(name));
}

bool HttpHostPolicy::Allows(std::string_view name) const {
  const std::string host(name);
  if (NamesLoopback(host) || (is_public_ && IsIpAddress(host))) return true;
  return std::find(names_.begin(), names_.end(), host) != names_.end();
}

}  // namespace deltafin
