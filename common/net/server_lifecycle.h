// common/net/server_lifecycle.h
//
// A gRPC server from start to shutdown, with the standard health service and
// reflection. Both programs' services run in one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace deltafin {

class ConnectionAcceptor;

struct ServerOptions {
  // HOST:PORT, port 0 for a free one; without credentials on the loopback
  // interface. Empty: reached through InProcessChannel alone.
  std::string listen;
  // What every peer must match to call any service, health and reflection
  // included; the in-process channel excepted.
  Credentials credentials = {};
  // When a client that is not heard of is asked, and how long one that does not
  // answer keeps its connection. Nodes use less, to notice a coordinator that
  // is gone.
  Keepalive keepalive = {absl::Seconds(2), absl::Seconds(20)};
  // Longest message a client may send; longer ones end its call with
  // RESOURCE_EXHAUSTED.
  int64_t max_receive_bytes = int64_t{64} << 20;
};

class ServerLifecycle {
 public:
  // Starts serving. The services must outlive the server. Errors:
  // INVALID_ARGUMENT for a bad address, or one beyond loopback without
  // credentials; UNAVAILABLE when it cannot be bound, for example because
  // another program has the port.
  static absl::StatusOr<std::unique_ptr<ServerLifecycle>> Start(
      const ServerOptions& options, std::span<grpc::Service* const> services);
  ~ServerLifecycle();  // Shutdown without drain

  // HOST:PORT with the port that was bound; empty without `listen`.
  const std::string& address() const { return address_; }
  int bound_port() const;

  // A channel to this server without a socket. Thread-safe. REQUIRES: not shut
  // down.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // What the health service says of one service, by its full name. Nothing once
  // What the health service says of one service, by its full name. Thread-safe.
  void SetServing(const std::string& service, bool is_serving);
  // Makes the health service say NOT_SERVING; calls go on.
  void SetNotServing();

  // Refuses new calls, waits up to `drain` for running ones,
  // then cancels them. Blocks. Idempotent.
  void Shutdown(absl::Duration drain);

 private:
  ServerLifecycle();
  absl::Status Listen(const ServerOptions& options);

  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;  // null without `listen`
  std::string address_;
  bool shut_down_ = false;
};

}  // namespace deltafin
