// common/net/http_server.h
//
// An HTTP/1.1 server, plain or over TLS, made for clients that nobody vouches
// for: everything that a client can make long, large or many is bounded.
// docs/http_api.md, "Connection", has what clients see.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/http_message.h"

namespace deltafin {

// PEM files; none: plaintext.
struct HttpTlsFiles {
  std::string certificate;  // with the chain up to its authority
  std::string key;          // readable by its owner alone

  bool any() const { return !certificate.empty() || !key.empty(); }
};

struct HttpServerOptions {
  // HOST:PORT, port 0 for a free one. Beyond loopback it needs TLS, and that
  // is_authenticated.
  std::string listen;
  HttpTlsFiles tls;
  // The handler answers only clients that have shown a key.
  bool is_authenticated = false;

  // Names, without port, that a Host header may hold besides `listen`'s own and
  // those of loopback; beyond loopback every IP address is accepted, too. All
  // others get 421: a page of another site whose name was made to point here
  // (DNS rebinding) can ask nothing.
  std::vector<std::string> allowed_hosts;

  // Threads that read, write and call the handler.
  int num_threads = 2;
  // Open connections. At the limit the one that has been without a request (or
  // with half of its headers) for longest is closed for a new one; if all have
  // one, the new one gets 503.
  int max_connections = 1024;

  // Request line and headers; more gets 414 or 431.
  size_t max_header_bytes = size_t{32} << 10;
  // More gets 413: before it is sent, if Content-Length tells.
  size_t max_body_bytes = size_t{32} << 20;
  // Bodies that are being received, of all connections; what would exceed it
  // gets 503.
  size_t max_total_body_bytes = size_t{256} << 20;
  // See HttpReply::Write.
  size_t max_unread_bytes = size_t{4} << 20;

  // From a request's first byte to the end of its headers, and from there to
  // the end of its body, however many bytes come; later gets 408. The first
  // holds for a TLS handshake, too.
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Seconds(120);
  // Silence before, between and after requests.
  absl::Duration idle_timeout = absl::Seconds(75);
  // A client that takes not one byte of what waits for it.
  absl::Duration write_timeout = absl::Seconds(60);
};

// OK when Start would not refuse the options themselves, for a clear refusal
// before a long start. Reads the TLS files. Errors: INVALID_ARGUMENT with what
// to do; those of ReadFile and ReadSecretFile.
absl::Status CheckHttpServerOptions(const HttpServerOptions& options);

// Thread-safe.
class HttpServer {
 public:
  // Begins to answer. Errors: those of CheckHttpServerOptions; UNAVAILABLE when
  // the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, HttpHandler handler);
  // Shutdown without drain.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // HOST:PORT with the port that was bound.
  const std::string& address() const { return address_; }
  bool is_tls() const { return is_tls_; }

  // Accepts nothing more, closes idle connections, waits up to `drain` for
  // answers that are under way, then closes them (their clients count as gone).
  // Blocks until no handler runs. Idempotent. REQUIRES: not called by a handler
  // or OnGone.
  void Shutdown(absl::Duration drain);

 private:
  class Impl;
  HttpServer();

  std::string address_;
  bool is_tls_ = false;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
