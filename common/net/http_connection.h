// common/net/http_connection.h
//
// One client's connection: reads its requests one after the other, has them
// answered, sends the answers, and notices when the client is too slow or gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/net/http_connection_set.h"
#include "common/net/http_exchange.h"
#include "common/net/http_request_parser.h"
#include "common/net/http_server.h"
#include "common/net/http_stream.h"
#include "common/net/http_target.h"

namespace deltafin {

// What the connections of a server share. Outlives them.
struct HttpConnectionContext {
  HttpServerOptions options;
  HttpHandler handler;
  HttpHostPolicy hosts;
  HttpConnectionSet connections;
  std::atomic<size_t> body_bytes{0};  // received, their requests not complete
};

// All but the constructor and Start run in turn on the stream.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpStream> stream,
                 HttpConnectionContext& context);

  // Joins the context's connections, and lives until it leaves them.
  void Start();

 private:
  enum class State : uint8_t {
    kGreeting,  // TLS
    kIdle,
    kHeaders,  // some have come
    kBody,
    kAnswering,
    kLingering,  // has said its last; waits for the client to close
    kClosed,
  };

  void Greet();
  void Heed(HttpConnectionWish wish);
  void BecomeIdle();

  void Read();
  void OnRead(size_t num_bytes);
  void OnReadEnd();
  void Parse();
  // False: the request was refused.
  bool AcceptHeaders();
  bool CountBody();
  void UncountBody();
  void Dispatch();
  void Refuse(const HttpRefusal& refusal);
  void BeginAnswer(bool is_head, bool is_http_1_0, bool keeps_alive);

  void Flush();
  void Write();
  void OnWritten(size_t num_bytes);
  void FinishAnswer();
  void Linger();
  void Close();

  void CloseAfter(absl::Duration delay);
  void RefuseAfter(absl::Duration delay, const char* what);

  const std::shared_ptr<HttpStream> stream_;
  HttpConnectionContext& context_;
  State state_ = State::kGreeting;
  bool is_surplus_ = false;

  struct Input {
    std::array<char, 8192> buffer;
    std::string bytes;  // read, not parsed
    bool is_reading = false;
    bool has_ended = false;
    bool is_dropped = false;  // what comes is not looked at
  } input_;
  std::unique_ptr<HttpRequestParser> parser_;  // null: no byte of a request
  size_t num_counted_ = 0;                     // bytes of context_.body_bytes

  std::shared_ptr<HttpExchange> exchange_;  // kAnswering
  struct Output {
    std::string bytes;
    size_t num_written = 0;
    bool is_writing = false;
    bool is_answer = false;
  } output_;
};

}  // namespace deltafin
