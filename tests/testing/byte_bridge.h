// tests/testing/byte_bridge.h
//
// A port of this namespace that leads to a connection made elsewhere, so that a
// client with its own ideas of connecting reaches another network namespace.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace deltafin::testing {

class ByteBridge {
 public:
  // Takes the connected socket. One client is served.
  static absl::StatusOr<std::unique_ptr<ByteBridge>> Create(int socket);
  // Ends the connection.
  ~ByteBridge();

  // 127.0.0.1:PORT.
  const std::string& address() const;

 private:
  ByteBridge();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin::testing
