#include "common/net/connection_acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// More than any cluster needs; some systems have a hard limit of 2^30.
constexpr rlim_t kWantedDescriptors = 65536;
constexpr int kMaxAcceptsPerTurn = 64;
// Unacknowledged bytes or an unanswered probe for so long end a connection;
// what gRPC's own listener sets.
constexpr int kUserTimeoutMs = 20'000;
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kBetweenWarnings = absl::Seconds(30);

// Raises the soft limit and returns it.
int RaiseDescriptorLimit() {
  rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (limit.rlim_cur < kWantedDescriptors) {
    limit.rlim_cur = std::min(limit.rlim_max, kWantedDescriptors);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A socket that listens there, or errno. Accepted connections inherit the TCP
// options.
int ListenOn(const addrinfo& entry, FileDescriptor& fd) {
  fd = FileDescriptor(socket(entry.ai_family,
                             entry.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                             entry.ai_protocol));
  if (!fd.valid()) return errno;
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  // "[::]" takes IPv4, too.
  if (entry.ai_family == AF_INET6) {
    SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(fd.get(), entry.ai_addr, entry.ai_addrlen) != 0) return errno;
  return listen(fd.get(), SOMAXCONN) == 0 ? 0 : errno;
}

int PortOf(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0);
  return bound.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

void SetPort(sockaddr* address, int port) {
  const auto network_port = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = network_port;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = network_port;
  }
}

bool HasSentSomething(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const ListenAddress& address, const AcceptorLimits& limits) {
  std::unique_ptr<ConnectionAcceptor> self(new ConnectionAcceptor(limits));
  const int limit = RaiseDescriptorLimit();
  self->most_descriptors_ =
      limit - std::min(limits.reserved_descriptors, limit / 2);
  RETURN_IF_ERROR(self->Bind(address));
  self->stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  CHECK(self->stop_.valid());
  return self;
}

absl::Status ConnectionAcceptor::Bind(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 freeaddrinfo);
  std::string why = unknown != 0 ? gai_strerror(unknown) : "no address";
  port_ = address.port;
  for (addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SetPort(entry->ai_addr, port_);  // a free one is the same for all
    FileDescriptor fd;
    if (const int error = ListenOn(*entry, fd); error != 0) {
      why = std::strerror(error);
      continue;
    }
    port_ = PortOf(fd.get());
    listeners_.push_back(std::move(fd));
  }
  if (!listeners_.empty()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format(
      "cannot listen on {}: {}; choose another address or port, or end the "
      "program that has it",
      address.ToString(), why));
}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::Start(OnConnection on_connection) {
  CHECK(!thread_.joinable());
  on_connection_ = std::move(on_connection);
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "acceptor");
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  listeners_.clear();
  silent_.clear();
}

absl::Duration ConnectionAcceptor::UntilNextDeadline() const {
  const absl::Time now = absl::Now();
  absl::Time next =
      silent_.empty() ? absl::InfiniteFuture() : silent_.front().deadline;
  if (paused_until_ > now) next = std::min(next, paused_until_);
  return std::max(next - now, absl::ZeroDuration());
}

void ConnectionAcceptor::Loop() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign(1, {stop_.get(), POLLIN, 0});
    for (const Silent& one : silent_) {
      polled.push_back({one.fd.get(), POLLIN, 0});
    }
    if (absl::Now() >= paused_until_) {
      for (const FileDescriptor& fd : listeners_) {
        polled.push_back({fd.get(), POLLIN, 0});
      }
    }
    const absl::Duration wait = UntilNextDeadline();
    const int timeout_ms =
        wait == absl::InfiniteDuration()
            ? -1
            : static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1;
    if (poll(polled.data(), polled.size(), timeout_ms) < 0) continue;
    if (polled[0].revents != 0) return;
    const size_t num_silent = silent_.size();
    HandOn({polled.data() + 1, num_silent});
    for (size_t i = 1 + num_silent; i < polled.size(); ++i) {
      if (polled[i].revents != 0) AcceptFrom(polled[i].fd);
    }
  }
}

// Those that spoke go on; those that hung up or were silent too long go away.
void ConnectionAcceptor::HandOn(std::span<const pollfd> polled) {
  const absl::Time now = absl::Now();
  std::vector<Silent> still_silent;
  for (size_t i = 0; i < polled.size(); ++i) {
    Silent& one = silent_[i];
    if (polled[i].revents == 0) {
      if (one.deadline > now) still_silent.push_back(std::move(one));
    } else if (HasSentSomething(one.fd.get())) {
      on_connection_(one.listener_fd, one.fd.Release());
    }
  }
  silent_ = std::move(still_silent);
}

void ConnectionAcceptor::AcceptFrom(int listener_fd) {
  for (int i = 0; i < kMaxAcceptsPerTurn; ++i) {
    FileDescriptor fd(
        accept4(listener_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      // A connection that is gone already, or none: the next turn tells.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
          errno == ENOMEM) {
        OutOfDescriptors();
      }
      return;
    }
    if (fd.get() >= most_descriptors_) {
      OutOfDescriptors();
      return;  // closes it
    }
    Take(std::move(fd), listener_fd);
  }
}

void ConnectionAcceptor::Take(FileDescriptor fd, int listener_fd) {
  if (silent_.size() >= limits_.max_silent) silent_.erase(silent_.begin());
  silent_.push_back(
      {std::move(fd), listener_fd, absl::Now() + limits_.longest_silence});
}

void ConnectionAcceptor::OutOfDescriptors() {
  const absl::Time now = absl::Now();
  paused_until_ = now + kPause;
  silent_.clear();
  if (now < next_warning_) return;
  next_warning_ = now + kBetweenWarnings;
  spdlog::warn(
      "too many connections: new ones are turned away while {} files are open; "
      "a higher limit of open files (ulimit -n, LimitNOFILE=) lets more in",
      most_descriptors_);
}

}  // namespace deltafin
