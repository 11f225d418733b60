// common/net/http_server.h
//
// A small HTTP/1.1 server on the loopback interface: answers GET requests of
// fixed paths with whole texts. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

struct HttpRoute {
  std::string path;  // exact, "/metrics"
  std::string content_type;
  // The body. Called on the server's threads, several at once; must outlive the
  // server.
  std::function<std::string()> body;
};

struct HttpServerOptions {
  // HOST:PORT on the loopback interface, port 0 for a free one.
  std::string listen;
  // Requests that are answered at once.
  int num_threads = 2;
  // Accepted connections that wait for a thread; further ones wait in the
  // kernel.
  int max_waiting = 16;
};

// Bounded against bad clients: a header line of 8 KiB, a path of 8 KiB, no
// body, two seconds of silence within a request, one request a connection.
class HttpServer {
 public:
  // Begins to answer; other paths get 404. Errors: INVALID_ARGUMENT for a bad
  // or non-loopback address; UNAVAILABLE when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, std::vector<HttpRoute> routes);
  // Waits for requests that are being answered.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // HOST:PORT with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  struct Impl;
  HttpServer();

  std::string address_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
