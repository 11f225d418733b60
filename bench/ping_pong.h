// bench/ping_pong.h
//
// The floor of a round trip: framed bytes over plain TCP, blocking calls,
// nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace deltafin::bench {

// A server's end, for a process of its own: accepts one connection and answers
// each request of n bytes with m bytes, (n, m) as its header says, until the
// peer closes.
class PongServer {
 public:
  explicit PongServer(const std::string& host);  // on a free port of it
  ~PongServer();
  PongServer(const PongServer&) = delete;
  PongServer& operator=(const PongServer&) = delete;

  int port() const { return port_; }
  void Serve();

 private:
  int fd_ = -1;
  int port_ = 0;
};

class PingClient {
 public:
  PingClient(const std::string& host, int port);
  ~PingClient();
  PingClient(const PingClient&) = delete;
  PingClient& operator=(const PingClient&) = delete;

  void Send(size_t request_bytes, size_t reply_bytes);
  // Blocks until the whole reply is here.
  void Receive();

 private:
  int fd_ = -1;
  size_t expected_ = 0;
  std::vector<uint8_t> buffer_;
};

}  // namespace deltafin::bench
