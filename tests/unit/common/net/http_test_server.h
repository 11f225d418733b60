// tests/unit/common/net/http_test_server.h
//
// An HTTP server whose requests the test answers, or whose handler does.
// Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/net/http_server.h"

namespace deltafin::testing {

// A flag that another thread raises.
class Signal {
 public:
  void Raise();
  int count() const;
  // False after a minute.
  bool Await(int count = 1);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct HttpCall {
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
};

class HttpTestServer {
 public:
  // On a free port of 127.0.0.1. Without a handler, Await gives the requests.
  explicit HttpTestServer(HttpServerOptions options = {},
                          HttpHandler handler = nullptr);
  ~HttpTestServer();

  // The next request; one without reply after a minute.
  HttpCall Await();
  int port() const { return port_; }
  HttpServer& server() { return *server_; }
  // Destroys it.
  void End() { server_.reset(); }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<HttpCall> calls_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<HttpServer> server_;
};

// Answers 200 with "METHOD path?query|body".
void Echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

// "GET path" of HTTP/1.1 from localhost with further lines of headers.
std::string Get(const std::string& path, const std::string& headers = "");

// The answer to `bytes` on a connection of its own is an error with this status
// and code, and the connection ends with it.
void ExpectRefusal(int port, std::string_view bytes, int status,
                   const std::string& code);
// A server that echoes answers a new connection.
void ExpectServes(int port);

}  // namespace deltafin::testing
