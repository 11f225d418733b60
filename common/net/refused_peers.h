// common/net/refused_peers.h
//
// Tells who was refused by TLS. gRPC says why a handshake failed, but not with
// whom; connections that began in the time that it lets a handshake take are
// those that it can have been. Thread-safe.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

class RefusedPeers {
 public:
  static constexpr absl::Duration kHandshake = absl::Seconds(5);
  static constexpr absl::Duration kBetweenLines = absl::Seconds(10);
  static constexpr size_t kMaxPeers = 4;  // that a line names

  // A peer has begun a handshake. `address`: "host:port".
  void Connected(std::string address, absl::Time now);

  // What to log when gRPC's own log says `grpc_message`. Empty: nothing, as
  // that is about something else, or nobody connected (then this process is the
  // one that was refused, and its calls say so), or a line was written shortly
  // before; the next one tells how many were left out.
  std::string LineFor(std::string_view grpc_message, absl::Time now);

 private:
  struct Peer {
    std::string address;
    absl::Time since;
  };
  std::string Names() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::deque<Peer> peers_ ABSL_GUARDED_BY(mutex_);  // the latest last
  absl::Time next_line_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// "host:port" of a socket's other end; "unknown" where there is none.
std::string PeerOf(int socket);

}  // namespace deltafin
