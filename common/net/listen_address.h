// common/net/listen_address.h
//
// HOST:PORT of a server, and the rule that servers stay on the loopback
// interface.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

struct ListenAddress {
  std::string host;  // name or address; IPv6 without brackets
  int port = 0;      // 0: any free one

  // "HOST:PORT", "[IPv6]:PORT". Errors: INVALID_ARGUMENT with the text.
  static absl::StatusOr<ListenAddress> Parse(std::string_view text);
  // The inverse.
  std::string ToString() const;
};

// OK when every address the host resolves to is a loopback one (127.0.0.0/8,
// ::1). Asks the resolver for names. Errors: INVALID_ARGUMENT when one is not,
// or the name is unknown; the message says why and what to use.
absl::Status RequireLoopback(const ListenAddress& address);

// OK when a server could be bound now, found out by binding a socket and
// letting go of it: for a clear refusal before a long start, not a promise.
// Errors: UNAVAILABLE when another program has the port or the system does not
// give it.
absl::Status RequireFreePort(const ListenAddress& address);

}  // namespace deltafin
