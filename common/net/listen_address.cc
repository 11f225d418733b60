#include "common/net/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/base/file_io.h"
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

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Resolved> Resolve(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the host '{}' is unknown ({})", address.ToString(),
                    address.host, gai_strerror(error)));
  }
  return Resolved(found, freeaddrinfo);
}

// The errno of listening there, as gRPC's server would; 0: it works.
int BindError(const addrinfo& entry) {
  const FileDescriptor socket_fd(socket(
      entry.ai_family, entry.ai_socktype | SOCK_CLOEXEC, entry.ai_protocol));
  const int on = 1;
  const bool bound =
      socket_fd.valid() &&
      setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ==
          0 &&
      bind(socket_fd.get(), entry.ai_addr, entry.ai_addrlen) == 0;
  return bound ? 0 : errno;
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
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no address, want HOST:PORT or [IPv6]:PORT", text));
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

absl::StatusOr<bool> IsLoopback(const ListenAddress& address) {
  absl::StatusOr<Resolved> found = Resolve(address);
  if (!found.ok()) return found.status();
  for (const addrinfo* entry = found->get(); entry != nullptr;
       entry = entry->ai_next) {
    if (!IsLoopback(entry->ai_addr)) return false;
  }
  return true;
}

absl::Status RequireFreePort(const ListenAddress& address) {
  absl::StatusOr<Resolved> found = Resolve(address);
  if (!found.ok()) return found.status();
  int error = 0;
  for (const addrinfo* entry = found->get(); entry != nullptr;
       entry = entry->ai_next) {
    error = BindError(*entry);
    if (error == 0) return absl::OkStatus();  // gRPC, too, takes what it can
  }
  return absl::UnavailableError(
      fmt::format("cannot listen on {}: {}; choose another address or port",
                  address.ToString(), std::strerror(error)));
}

}  // namespace deltafin
