#include "tests/testing/loopback_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "common/base/mutex.h"

namespace deltafin::testing {
namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10;

ReceivedRequest ParseHeader(std::string_view text) {
  ReceivedRequest request;
  const std::string line(text.substr(0, text.find("\r\n")));
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string::npos || last <= first) return request;
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  // As a proxy is asked: the scheme and host go.
  if (request.target.starts_with("http://")) {
    const size_t slash = request.target.find('/', 7);
    request.target =
        slash == std::string::npos ? "/" : request.target.substr(slash);
  }
  for (size_t at = line.size() + 2; at < text.size();) {
    const size_t end = std::min(text.find("\r\n", at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 2;
    const size_t colon = one.find(':');
    if (colon == one.npos) continue;
    std::string name(one.substr(0, colon));
    for (char& c : name) c = static_cast<char>(std::tolower(c & 0xff));
    const size_t value = one.find_first_not_of(' ', colon + 1);
    request.fields[name] = value == one.npos ? "" : one.substr(value);
  }
  return request;
}

class SocketStream final : public AnswerStream {
 public:
  // `tls`: null on a plain connection.
  SocketStream(int fd, TlsConnection* tls, const std::atomic<bool>& stop,
               std::atomic<uint64_t>& sent)
      : fd_(fd), tls_(tls), stop_(stop), sent_(sent) {}

  ssize_t Read(char* bytes, size_t size) {
    return tls_ != nullptr ? tls_->Read(bytes, size)
                           : recv(fd_, bytes, size, 0);
  }

  bool Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n =
          tls_ != nullptr ? tls_->Write(bytes.data(), bytes.size())
                          : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || stop_) return false;
      sent_ += static_cast<uint64_t>(n);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  bool Sleep(absl::Duration duration) override {
    const absl::Time end = absl::Now() + duration;
    while (!stop_ && absl::Now() < end) {
      pollfd peer = {fd_, POLLRDHUP, 0};
      const int64_t left = absl::ToInt64Milliseconds(end - absl::Now());
      poll(&peer, 1, static_cast<int>(std::clamp<int64_t>(left, 1, 20)));
      if (peer.revents != 0) return false;
    }
    return !stop_;
  }

 private:
  const int fd_;
  TlsConnection* const tls_;
  const std::atomic<bool>& stop_;
  std::atomic<uint64_t>& sent_;
};

}  // namespace

std::string ReceivedRequest::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

struct LoopbackHttpServer::Impl {
  struct Connection {
    FileDescriptor fd;
    std::atomic<bool> done{false};
    std::thread thread;
  };

  void Accept();
  void Serve(Connection& connection);
  void ServeRequests(SocketStream& stream);
  void JoinDone();

  std::shared_ptr<const TlsIdentity> tls;  // null: plain
  std::string address;
  int port = 0;
  Handler handler;
  FileDescriptor listener;
  std::atomic<bool> stop{false};
  std::atomic<int> open{0};
  std::atomic<uint64_t> sent{0};
  std::atomic<int> most{0};
  std::list<Connection> connections;  // of the accepting thread
  std::thread acceptor;
};

void LoopbackHttpServer::Impl::Accept() {
  while (!stop) {
    pollfd ready = {listener.get(), POLLIN, 0};
    if (poll(&ready, 1, 50) <= 0) continue;
    FileDescriptor fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    JoinDone();
    Connection& connection = connections.emplace_back();
    connection.fd = std::move(fd);
    most = std::max(most.load(), ++open);
    connection.thread = std::thread([this, &connection] { Serve(connection); });
  }
  for (Connection& one : connections) shutdown(one.fd.get(), SHUT_RDWR);
  for (Connection& one : connections) one.thread.join();
}

void LoopbackHttpServer::Impl::JoinDone() {
  for (auto it = connections.begin(); it != connections.end();) {
    const auto one = it++;
    if (!one->done) continue;
    one->thread.join();
    connections.erase(one);
  }
}

void LoopbackHttpServer::Impl::Serve(Connection& connection) {
  const int fd = connection.fd.get();
  std::optional<TlsConnection> secure;
  if (tls != nullptr) secure.emplace(*tls, fd);
  if (!secure || secure->Accept()) {
    SocketStream stream(fd, secure ? &*secure : nullptr, stop, sent);
    ServeRequests(stream);
  }
  --open;
  shutdown(fd, SHUT_RDWR);
  connection.done = true;
}

void LoopbackHttpServer::Impl::ServeRequests(SocketStream& stream) {
  std::string buffer;
  char bytes[8192];
  while (!stop) {
    const size_t end = buffer.find("\r\n\r\n");
    if (end == std::string::npos) {
      const ssize_t n = stream.Read(bytes, sizeof(bytes));
      if (n <= 0 || buffer.size() > kMaxHeaderBytes) break;
      buffer.append(bytes, static_cast<size_t>(n));
      continue;
    }
    const ReceivedRequest request = ParseHeader(buffer.substr(0, end));
    buffer.erase(0, end + 4);
    if (!handler(request, stream)) break;
    if (request.field("connection") == "close") break;
  }
}

LoopbackHttpServer::LoopbackHttpServer() : impl_(std::make_unique<Impl>()) {}

LoopbackHttpServer::~LoopbackHttpServer() { Stop(); }

void LoopbackHttpServer::Stop() {
  impl_->stop = true;
  if (impl_->acceptor.joinable()) impl_->acceptor.join();
}

absl::StatusOr<std::unique_ptr<LoopbackHttpServer>> LoopbackHttpServer::Listen(
    const std::string& address, int port,
    std::shared_ptr<const TlsIdentity> tls) {
  std::unique_ptr<LoopbackHttpServer> server(new LoopbackHttpServer);
  Impl& impl = *server->impl_;
  impl.address = address;
  impl.tls = std::move(tls);
  impl.listener =
      FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(impl.listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof(at);
  auto* const generic = reinterpret_cast<sockaddr*>(&at);
  if (inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1 ||
      bind(impl.listener.get(), generic, size) != 0 ||
      listen(impl.listener.get(), 128) != 0 ||
      getsockname(impl.listener.get(), generic, &size) != 0) {
    return ErrnoStatus(errno, "listen on", address);
  }
  impl.port = ntohs(at.sin_port);
  return server;
}

void LoopbackHttpServer::Serve(Handler handler) {
  impl_->handler = std::move(handler);
  impl_->acceptor = std::thread([impl = impl_.get()] { impl->Accept(); });
}

const std::string& LoopbackHttpServer::address() const {
  return impl_->address;
}
int LoopbackHttpServer::port() const { return impl_->port; }
std::string LoopbackHttpServer::url() const {
  const std::string port = ":" + std::to_string(impl_->port);
  if (impl_->tls != nullptr) return "https://" + impl_->tls->host() + port;
  return "http://" + impl_->address + port;
}
int LoopbackHttpServer::most_connections() const { return impl_->most; }
uint64_t LoopbackHttpServer::bytes_sent() const { return impl_->sent; }

}  // namespace deltafin::testing
