// common/net/http_request_parser.h
//
// The bytes of one HTTP/1 request, as they come, made into an HttpRequest. What
// two programs could read differently is refused: a second Content-Length, any
// Transfer-Encoding but "chunked", both together, folded headers, bare line
// feeds, control characters. Pure; thread-compatible.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/http_message.h"

namespace deltafin {

// Why a request gets no answer of the handler.
struct HttpRefusal {
  int status = 0;
  std::string code;  // of HttpErrorBody
  std::string message;
};

struct HttpRequestLimits {
  size_t max_header_bytes = 0;  // also of one chunk's head, and of trailers
  size_t max_body_bytes = 0;
};

class HttpRequestParser {
 public:
  enum class State { kHeaders, kBody, kComplete, kRefused };

  explicit HttpRequestParser(const HttpRequestLimits& limits);
  ~HttpRequestParser();

  // Takes what it can from the front of `bytes` and returns how much that was;
  // the rest must come again, with what follows it. Takes nothing once
  // complete or refused. Trailers are checked and dropped.
  size_t Take(std::string_view bytes);

  State state() const { return state_; }
  // More than empty lines came.
  bool has_begun() const { return num_scanned_ > 0; }
  // REQUIRES: kRefused.
  const HttpRefusal& refusal() const { return refusal_; }

  // Of a request whose headers are known (kBody, kComplete):
  bool is_http_1_0() const;
  // It may be followed by another one.
  bool keeps_alive() const;
  // The client waits for status 100 before it sends the body.
  bool expects_continue() const;
  // HOST[:PORT] of an absolute target, which stands above the Host header.
  const std::string& authority() const;
  // Bytes of the body so far.
  size_t body_bytes() const;

  const HttpRequest& request() const;
  // REQUIRES: kComplete. Once.
  HttpRequest TakeRequest();

 private:
  class Message;

  // False: more is needed, or it is refused.
  bool FindHeaderEnd(std::string_view bytes);
  bool CheckHeaderByte(char c);
  void Refuse(HttpRefusal refusal);
  size_t TakeHeaders(std::string_view bytes);
  size_t TakeBody(std::string_view bytes);

  const HttpRequestLimits limits_;
  State state_ = State::kHeaders;
  HttpRefusal refusal_;
  size_t num_scanned_ = 0;  // bytes of headers that were seen
  char last_ = '\n';
  bool has_line_ = false;      // the request line has ended
  bool is_line_empty_ = true;  // so far
  std::unique_ptr<Message> message_;
};

}  // namespace deltafin
