#include "common/net/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <memory>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

absl::StatusOr<int> ParsePort(std::string_view text) {
  int port = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no port, want 0 to 65535", text));
  }
  return port;
}

}  // namespace

absl::StatusOr<ListenAddress> ListenAddress::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const bool bracketed =
      host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (colon == std::string_view::npos || host.empty() ||
      (!bracketed && host.find(':') != std::string_view::npos)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no address to listen on, want HOST:PORT or [IPv6]:PORT",
        text));
  }
  const absl::StatusOr<int> port = ParsePort(text.substr(colon + 1));
  if (!port.ok()) return port.status();
  return ListenAddress{std::string(host), *port};
}

std::string ListenAddress::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port)
            : fmt::format("{}:{}", host, port);
}

absl::Status RequireLoopback(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot listen on {}: the host '{}' is unknown ({})",
                    address.ToString(), address.host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr;
       entry = entry->ai_next) {
    if (IsLoopback(entry->ai_addr)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "refused to listen on {}: it can be reached from other machines and "
        "nothing here checks who connects; use 127.0.0.1, ::1 or localhost",
        address.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
