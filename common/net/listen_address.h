// common/net/listen_address.h
//
// HOST:PORT of a server, and what kind of address it is.
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

// Whether every address the host resolves to is a loopback one (127.0.0.0/8,
// ::1). Asks the resolver for names. Errors: INVALID_ARGUMENT when the name is
// unknown.
absl::StatusOr<bool> IsLoopback(const ListenAddress& address);

// OK when a server could be bound now, found out by binding a socket and
// letting go of it: for a clear refusal before a long start, not a promise.
// Errors: UNAVAILABLE when another program has the port or the system does not
// give it.
absl::Status RequireFreePort(const ListenAddress& address);

}  // namespace deltafin
