// tests/testing/http_get.h
//
// The least of an HTTP client.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace deltafin::testing {

// Sends `request` as it is to 127.0.0.1:port and returns all that comes until
// the server closes. Errors: UNAVAILABLE.
absl::StatusOr<std::string> HttpExchange(int port, const std::string& request);

// The whole response to GET path, with its header.
absl::StatusOr<std::string> HttpGet(int port, const std::string& path);

}  // namespace deltafin::testing
