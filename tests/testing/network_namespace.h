// tests/testing/network_namespace.h
//
// A network namespace of a test: named, with its loopback interface up, gone
// with the object. Needs root and iproute2. Thread-compatible.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin::testing {

class NetworkNamespace {
 public:
  // OK where namespaces, virtual links and TUNs can be made. Errors:
  // FAILED_PRECONDITION saying what is missing.
  static absl::Status Possible();

  // `name` is made unique: dfbox-PID-NAME. Removes what killed test programs
  // left behind before the first one.
  static absl::StatusOr<std::unique_ptr<NetworkNamespace>> Create(
      const std::string& name);
  ~NetworkNamespace();
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;

  const std::string& name() const { return name_; }
  // The file that setns takes.
  std::string path() const;

  // Gives lines to `ip -n NAME -batch`. Errors: what ip printed.
  absl::Status Ip(const std::string& lines) const;

  // Calls `open` on a thread inside the namespace and returns what it returns,
  // a file descriptor or -1. Errors: UNAVAILABLE with errno for -1.
  absl::StatusOr<int> OpenInside(const std::function<int()>& open) const;

  // Sockets inside: of a server at HOST:PORT (IPv4), and to one. Blocking.
  absl::StatusOr<int> Listen(const std::string& host, int port) const;
  absl::StatusOr<int> Connect(const std::string& host, int port) const;

 private:
  explicit NetworkNamespace(std::string name) : name_(std::move(name)) {}

  const std::string name_;
};

}  // namespace deltafin::testing
