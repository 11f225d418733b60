// tests/testing/loopback_http_server.h
//
// An HTTP/1.1 server that lets its handler write every byte of the answer, so
// that answers can be wrong in any way. One thread a connection. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/tls_server.h"

namespace deltafin::testing {

struct ReceivedRequest {
  std::string method;
  std::string target;                         // path and query
  std::map<std::string, std::string> fields;  // by lower-case name

  std::string field(const std::string& name) const;
  std::string path() const { return target.substr(0, target.find('?')); }
};

// The way back to who asked.
class AnswerStream {
 public:
  virtual ~AnswerStream() = default;
  // False when the peer or the server is gone.
  virtual bool Write(std::string_view bytes) = 0;
  // Waits; false when the server stops or the peer hangs up meanwhile.
  virtual bool Sleep(absl::Duration duration) = 0;
};

class LoopbackHttpServer {
 public:
  // Returns whether the connection stays open.
  using Handler =
      std::function<bool(const ReceivedRequest& request, AnswerStream& answer)>;

  // Listens on `address` (IPv4); port 0 takes a free one. With `tls` it is
  // https, under that identity.
  static absl::StatusOr<std::unique_ptr<LoopbackHttpServer>> Listen(
      const std::string& address, int port,
      std::shared_ptr<const TlsIdentity> tls = nullptr);
  // Begins to answer; once. `handler` is called from many threads.
  void Serve(Handler handler);
  // Closes all connections and joins; idempotent.
  void Stop();
  ~LoopbackHttpServer();
  LoopbackHttpServer(const LoopbackHttpServer&) = delete;
  LoopbackHttpServer& operator=(const LoopbackHttpServer&) = delete;

  const std::string& address() const;
  int port() const;
  // "http://address:port", or "https://host:port" of the identity.
  std::string url() const;
  // Most connections that were open at once.
  int most_connections() const;
  // Bytes written, headers included.
  uint64_t bytes_sent() const;

 private:
  LoopbackHttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin::testing
