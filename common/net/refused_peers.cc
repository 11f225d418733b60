#include "common/net/refused_peers.h"

#include <netdb.h>
#include <sys/socket.h>

#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// What gRPC's TLS logs, server and client alike; OpenSSL's reason comes last.
constexpr std::string_view kFailed = "Handshake failed with fatal error ";
constexpr std::string_view kReason = "routines::";

struct Explanation {
  std::string_view reason;  // of OpenSSL
  std::string_view meaning;
};

constexpr Explanation kExplanations[] = {
    {"certificate verify failed",
     "its certificate has expired, or is of another cluster: other token or "
     "authority"},
    {"unknown ca",
     "it does not accept this machine's certificate: it is of another cluster, "
     "with another token or authority"},
    {"peer did not return a certificate", "it has no certificate"},
    {"http request", "it speaks plaintext: start it with credentials"},
    {"wrong version number", "it speaks plaintext: start it with credentials"},
};

// The reason in gRPC's message, explained where it is a usual one.
std::string Explain(std::string_view message) {
  if (const size_t at = message.rfind(kReason); at != message.npos) {
    message.remove_prefix(at + kReason.size());
  }
  while (message.ends_with('.')) message.remove_suffix(1);
  for (const Explanation& one : kExplanations) {
    if (message.find(one.reason) != message.npos) {
      return fmt::format("{} ({})", one.meaning, message);
    }
  }
  return std::string(message);
}

}  // namespace

void RefusedPeers::Connected(std::string address, absl::Time now) {
  MutexLock lock(mutex_);
  peers_.push_back({std::move(address), now});
  if (peers_.size() > kMaxPeers) peers_.pop_front();
}

std::string RefusedPeers::LineFor(std::string_view grpc_message,
                                  absl::Time now) {
  const size_t at = grpc_message.find(kFailed);
  if (at == grpc_message.npos) return "";
  MutexLock lock(mutex_);
  while (!peers_.empty() && now - peers_.front().since > kHandshake) {
    peers_.pop_front();
  }
  if (peers_.empty()) return "";
  if (now < next_line_) {
    ++left_out_;
    return "";
  }
  next_line_ = now + kBetweenLines;
  const int left_out = std::exchange(left_out_, 0);
  return fmt::format(
      "refused a connection from {}: {}{}", Names(),
      Explain(grpc_message.substr(at + kFailed.size())),
      left_out == 0 ? ""
                    : fmt::format(" ({} more before, not shown)", left_out));
}

std::string RefusedPeers::Names() const {
  std::string names = peers_.back().address;
  if (peers_.size() == 1) return names;
  std::string others;
  for (size_t i = peers_.size() - 1; i-- > 0;) {
    others += (others.empty() ? "" : ", ") + peers_[i].address;
  }
  return fmt::format("{}, or of those that connected shortly before: {}", names,
                     others);
}

std::string PeerOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(socket, generic, &size) != 0 ||
      getnameinfo(generic, size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port)
                 : fmt::format("{}:{}", host, port);
}

}  // namespace deltafin
