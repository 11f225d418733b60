// common/net/connection_acceptor.h
//
// Listens, and hands connections on once they have sent something. gRPC's own
// listener stops for good when the process runs out of file descriptors, and
// takes one for every connection that never speaks; here such connections are
// bounded in number and time, and the listener lives on.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_io.h"
#include "common/net/listen_address.h"

struct pollfd;

namespace deltafin {

struct AcceptorLimits {
  // Connections that have not sent a byte. The oldest goes when one more comes:
  // a peer that means it sends its first bytes with its handshake's.
  size_t max_silent = 256;
  absl::Duration longest_silence = absl::Seconds(5);
  // Descriptors that connections leave to files and to calls of our own, at
  // most half of the process's limit. When no more than these are left, new
  // connections are closed at once.
  int reserved_descriptors = 256;
};

class ConnectionAcceptor {
 public:
  // Called on the acceptor's thread; owns `fd`, which is non-blocking. Must not
  // block.
  using OnConnection = std::function<void(int listener_fd, int fd)>;

  // Binds every address of the host that can be bound, and listens. Raises the
  // process's soft limit of descriptors towards its hard one. Errors:
  // UNAVAILABLE when none can be bound.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(
      const ListenAddress& address, const AcceptorLimits& limits = {});
  ~ConnectionAcceptor();  // Stop
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  int port() const { return port_; }

  // Begins to accept, on a thread of its own. REQUIRES: not started before.
  void Start(OnConnection on_connection);
  // Stops listening; silent connections are closed. Idempotent.
  void Stop();

 private:
  struct Silent {
    FileDescriptor fd;
    int listener_fd = -1;
    absl::Time deadline;
  };

  explicit ConnectionAcceptor(const AcceptorLimits& limits) : limits_(limits) {}
  absl::Status Bind(const ListenAddress& address);
  void Loop();
  absl::Duration UntilNextDeadline() const;
  void HandOn(std::span<const pollfd> polled);
  void AcceptFrom(int listener_fd);
  void Take(FileDescriptor fd, int listener_fd);
  void OutOfDescriptors();

  const AcceptorLimits limits_;
  std::vector<FileDescriptor> listeners_;
  int port_ = 0;
  int most_descriptors_ = 0;  // that connections may bring it to
  FileDescriptor stop_;
  OnConnection on_connection_;
  // Of the thread: ascending by deadline.
  std::vector<Silent> silent_;
  absl::Time paused_until_ = absl::InfinitePast();
  absl::Time next_warning_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace deltafin
