// common/net/http_stream.h
//
// A client's connection as a stream of bytes, plain or TLS, and the listener
// that accepts it; without the network library's types.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/listen_address.h"

namespace deltafin {

// Calls come back one at a time, never within the call that asked for them, and
// never once Close was called. Thread-compatible: called only from what it
// calls back, but for Post.
class HttpStream {
 public:
  // How many bytes were moved; 0: the other side has closed or it failed.
  using Moved = std::function<void(size_t num_bytes)>;

  virtual ~HttpStream() = default;

  // Runs `f` in turn with the other calls. Thread-safe.
  virtual void Post(std::function<void()> f) = 0;

  // TLS; at once for a plain one.
  virtual void Handshake(std::function<void(bool ok)> done) = 0;
  // At least one byte, as many as there are. One at a time; `buffer` must live
  // until then, also if it is closed.
  virtual void Read(std::span<char> buffer, Moved moved) = 0;
  // The same.
  virtual void Write(std::string_view bytes, Moved moved) = 0;
  // Tells the other side that nothing more will be written.
  virtual void EndWriting() = 0;
  // Replaces the timer that was set before.
  virtual void SetTimer(absl::Duration delay, std::function<void()> f) = 0;
  virtual void CancelTimer() = 0;
  // At once; what was not sent is lost.
  virtual void Close() = 0;
};

struct HttpListenerOptions {
  ListenAddress address;  // port 0: any free one
  // PEM texts; empty: plaintext.
  std::string certificate;
  std::string key;
  int num_threads = 1;
  // Sent bytes that the client's machine does not acknowledge for so long end
  // a connection.
  absl::Duration send_timeout;
};

// OK when a server can show this certificate. PEM texts. Errors:
// INVALID_ARGUMENT when they are none, or do not belong together.
absl::Status CheckHttpCertificate(const std::string& certificate,
                                  const std::string& key);

// Threads, and the socket that listens. Thread-compatible.
class HttpListener {
 public:
  // Errors: INVALID_ARGUMENT for an unknown host; those of
  // CheckHttpCertificate; UNAVAILABLE when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Listen(
      const HttpListenerOptions& options);
  // REQUIRES: Start was not called, or Join was.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Once. `accepted` is called for one connection at a time; `is_full` when the
  // process has no file descriptor for another one.
  void Start(std::function<void(std::shared_ptr<HttpStream>)> accepted,
             std::function<void()> is_full);
  // Accepts no more. Blocks until no `accepted` runs or will be called.
  void StopAccepting();
  // Waits until all streams are closed and nothing is called back. REQUIRES:
  // StopAccepting was called.
  void Join();
  int port() const;

 private:
  class Impl;
  explicit HttpListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
