// coordinator/cli/endpoint_client.h
//
// Asks an OpenAI-compatible endpoint. Blocking; thread-compatible.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace deltafin {

struct Endpoint {
  std::string url;  // the base that clients are given: "http://host:port/v1"
  std::string key;  // sent as a bearer token; empty: none
};

// POST url/path with a JSON body; the body of a 200 answer. Waits up to ten
// minutes. Errors: INVALID_ARGUMENT for a URL that is none, or one that would
// send the key in the clear to another machine; UNAVAILABLE when it cannot be
// reached; FAILED_PRECONDITION with what it says, for any other status.
absl::StatusOr<std::string> PostJson(const Endpoint& endpoint,
                                     const std::string& path,
                                     const std::string& body);

}  // namespace deltafin
