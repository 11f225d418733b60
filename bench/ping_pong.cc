#include "bench/ping_pong.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace deltafin::bench {
namespace {

struct Header {
  uint64_t request_bytes;
  uint64_t reply_bytes;
};

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) Fail("host");
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void WriteAll(int fd, const uint8_t* bytes, size_t count) {
  while (count > 0) {
    const ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    if (n <= 0) Fail("send");
    bytes += n;
    count -= n;
  }
}

// False at the end of the stream.
bool ReadAll(int fd, uint8_t* bytes, size_t count) {
  while (count > 0) {
    const ssize_t n = recv(fd, bytes, count, 0);
    if (n == 0) return false;
    if (n < 0) Fail("recv");
    bytes += n;
    count -= n;
  }
  return true;
}

}  // namespace

PongServer::PongServer(const std::string& host) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = AddressOf(host, 0);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd_, generic, length) != 0 || listen(fd_, 1) != 0 ||
      getsockname(fd_, generic, &length) != 0) {
    Fail("listen");
  }
  port_ = ntohs(address.sin_port);
}

PongServer::~PongServer() { close(fd_); }

void PongServer::Serve() {
  const int peer = accept(fd_, nullptr, nullptr);
  if (peer < 0) Fail("accept");
  SetNoDelay(peer);
  std::vector<uint8_t> buffer;
  Header header;
  while (ReadAll(peer, reinterpret_cast<uint8_t*>(&header), sizeof(header))) {
    buffer.resize(std::max(header.request_bytes, header.reply_bytes));
    if (!ReadAll(peer, buffer.data(), header.request_bytes)) break;
    WriteAll(peer, buffer.data(), header.reply_bytes);
  }
  close(peer);
}

PingClient::PingClient(const std::string& host, int port) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = AddressOf(host, port);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    Fail("connect");
  }
  SetNoDelay(fd_);
}

PingClient::~PingClient() { close(fd_); }

void PingClient::Send(size_t request_bytes, size_t reply_bytes) {
  const size_t message_bytes = sizeof(Header) + request_bytes;
  buffer_.resize(std::max({buffer_.size(), message_bytes, reply_bytes}));
  const Header header = {request_bytes, reply_bytes};
  std::memcpy(buffer_.data(), &header, sizeof(header));
  WriteAll(fd_, buffer_.data(), message_bytes);
  expected_ = reply_bytes;
}

void PingClient::Receive() {
  if (!ReadAll(fd_, buffer_.data(), expected_)) Fail("peer closed");
}

}  // namespace deltafin::bench
