// common/net/http_message.h
//
// A request of an HTTP client, and the answer to it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deltafin {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"; HEAD is not turned into GET
  std::string path;     // "/v1/models", as sent, escapes not decoded
  std::string query;    // what follows the '?', as sent
  HttpHeaders headers;  // in the order sent; names in lower case
  std::string body;     // whole

  // The first header of that name (in lower case), or null.
  const std::string* Header(std::string_view name) const;
};

// One answer: either Send, or Begin, any number of Write, and End. Thread-safe;
// no call blocks, and each may come from any thread, also after the server has
// gone. Calls out of order, and all after the end, do nothing. A reply that is
// dropped without an answer sends status 500; one that is dropped within its
// stream closes the connection, so that the client sees it is cut.
class HttpReply {
 public:
  virtual ~HttpReply() = default;

  // A whole answer of any size. Content-Length, Date and Connection are added.
  // To HEAD the headers alone are sent, here and by Begin. A header that holds
  // a control character is a bug of the caller: status 500 is sent instead.
  virtual void Send(int status, HttpHeaders headers, std::string body) = 0;

  // The head of a stream; it is sent at once.
  virtual void Begin(int status, HttpHeaders headers) = 0;
  // Queues a part of the stream. False: the client has gone, or it has left
  // more than HttpServerOptions::max_unread_bytes unread and the connection is
  // closed.
  virtual bool Write(std::string data) = 0;
  virtual void End() = 0;

  // `f` is called once, on a thread of the server, if the client goes before
  // Send or End, also while nothing is written; in this call if it has gone
  // already. One that closes only its sending side counts as gone. `f` must
  // not block; it is dropped with the answer's end. A later `f` replaces an
  // earlier one.
  virtual void OnGone(std::function<void()> f) = 0;
};

// Called on the server's threads, several at once; must not block for long.
using HttpHandler =
    std::function<void(HttpRequest request, std::shared_ptr<HttpReply> reply)>;

}  // namespace deltafin
