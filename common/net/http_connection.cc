#include "common/net/http_connection.h"

#include <span>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/net/http_response_head.h"
#include "common/net/http_routes.h"

namespace deltafin {
namespace {

// Read ahead of an answer that is under way; more stays in the kernel.
constexpr size_t kMaxAheadBytes = size_t{64} << 10;
// For the client to read the last answer. Closing before it has, while bytes of
// it are unread here, would make its system throw the answer away.
constexpr absl::Duration kLinger = absl::Seconds(2);

HttpRefusal NotOurHost(std::string_view host) {
  return {421, "unknown_host",
          fmt::format("this server does not answer for the host '{}'; start it "
                      "with --http-host NAME if that is its name",
                      host)};
}

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<HttpStream> stream,
                               HttpConnectionContext& context)
    : stream_(std::move(stream)), context_(context) {}

void HttpConnection::Start() {
  using Admission = HttpConnectionSet::Admission;
  const Admission admission = context_.connections.Add(
      this, [self = shared_from_this()](HttpConnectionWish wish) {
        self->stream_->Post([self, wish] { self->Heed(wish); });
      });
  is_surplus_ = admission == Admission::kSurplus;
  const bool is_refused = admission == Admission::kRefused;
  stream_->Post([self = shared_from_this(), is_refused] {
    if (is_refused) return self->Close();
    self->Greet();
  });
}

void HttpConnection::Greet() {
  if (state_ != State::kGreeting) return;
  context_.connections.SetIdle(this, true);
  CloseAfter(context_.options.header_timeout);
  stream_->Handshake([self = shared_from_this()](bool ok) {
    if (!ok) return self->Close();
    self->BecomeIdle();
    self->Read();
  });
}

void HttpConnection::Heed(HttpConnectionWish wish) {
  const bool is_idle = state_ != State::kBody && state_ != State::kAnswering;
  switch (wish) {
    case HttpConnectionWish::kCloseIfIdle:
      if (is_idle) Close();
      return;
    case HttpConnectionWish::kFinish:
      if (state_ == State::kLingering) return;
      if (state_ != State::kAnswering) return Close();
      return exchange_->SetLast();
    case HttpConnectionWish::kAbort:
      return Close();
  }
}

void HttpConnection::BecomeIdle() {
  state_ = State::kIdle;
  parser_.reset();
  if (input_.bytes.empty()) input_.bytes.shrink_to_fit();
  context_.connections.SetIdle(this, true);
  CloseAfter(context_.options.idle_timeout);
}

void HttpConnection::CloseAfter(absl::Duration delay) {
  stream_->SetTimer(delay, [self = shared_from_this()] { self->Close(); });
}

void HttpConnection::RefuseAfter(absl::Duration delay, const char* what) {
  stream_->SetTimer(delay, [self = shared_from_this(), delay, what] {
    self->Refuse({408, "request_timeout",
                  fmt::format("the {} did not come within {}", what,
                              absl::FormatDuration(delay))});
  });
}

void HttpConnection::Read() {
  if (input_.is_reading || input_.has_ended || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && input_.bytes.size() >= kMaxAheadBytes) {
    return;
  }
  input_.is_reading = true;
  stream_->Read(input_.buffer, [self = shared_from_this()](size_t num_bytes) {
    self->OnRead(num_bytes);
  });
}

void HttpConnection::OnRead(size_t num_bytes) {
  input_.is_reading = false;
  if (num_bytes == 0) return OnReadEnd();
  if (!input_.is_dropped) {
    input_.bytes.append(input_.buffer.data(), num_bytes);
    if (state_ != State::kAnswering) Parse();
  }
  Read();
}

// An answer that is already given is still sent: some clients close their
// sending side behind the last request.
void HttpConnection::OnReadEnd() {
  input_.has_ended = true;
  if (state_ == State::kAnswering &&
      exchange_->stage() != HttpExchange::Stage::kOpen) {
    return;
  }
  Close();
}

void HttpConnection::Parse() {
  const HttpServerOptions& options = context_.options;
  if (parser_ == nullptr) {
    parser_ = std::make_unique<HttpRequestParser>(
        HttpRequestLimits{options.max_header_bytes, options.max_body_bytes});
  }
  input_.bytes.erase(0, parser_->Take(input_.bytes));
  if (state_ == State::kIdle && parser_->has_begun()) {
    state_ = State::kHeaders;
    RefuseAfter(options.header_timeout, "headers");
  }
  using Parsed = HttpRequestParser::State;
  if (parser_->state() == Parsed::kRefused) return Refuse(parser_->refusal());
  if (parser_->state() == Parsed::kHeaders) return;
  if (state_ == State::kHeaders && !AcceptHeaders()) return;
  if (!CountBody()) return;
  if (parser_->state() == Parsed::kComplete) Dispatch();
}

bool HttpConnection::AcceptHeaders() {
  if (is_surplus_) {
    Refuse({503, "too_many_connections",
            "this server has as many connections as it may"});
    return false;
  }
  const std::string* host = parser_->request().Header("host");
  for (const std::string* named : {host, &parser_->authority()}) {
    if (named == nullptr || (named != host && named->empty())) continue;
    const auto name = HttpHostName(*named);
    if (!name || !context_.hosts.Allows(*name)) {
      Refuse(NotOurHost(*named));
      return false;
    }
  }
  state_ = State::kBody;
  context_.connections.SetIdle(this, false);
  RefuseAfter(context_.options.body_timeout, "body");
  if (parser_->expects_continue() && !output_.is_writing &&
      parser_->state() == HttpRequestParser::State::kBody) {
    output_.bytes = kHttpContinue;
    output_.is_answer = false;
    Write();
  }
  return true;
}

bool HttpConnection::CountBody() {
  const size_t num_new = parser_->body_bytes() - num_counted_;
  num_counted_ += num_new;
  if ((context_.body_bytes += num_new) <=
      context_.options.max_total_body_bytes) {
    return true;
  }
  Refuse({503, "too_many_bodies",
          "this server is receiving as many bytes as it may"});
  return false;
}

void HttpConnection::UncountBody() {
  context_.body_bytes -= num_counted_;
  num_counted_ = 0;
}

void HttpConnection::BeginAnswer(bool is_head, bool is_http_1_0,
                                 bool keeps_alive) {
  state_ = State::kAnswering;
  parser_.reset();
  UncountBody();
  stream_->CancelTimer();
  context_.connections.SetIdle(this, false);
  if (output_.is_writing) CloseAfter(context_.options.write_timeout);
  exchange_ = std::make_shared<HttpExchange>(
      HttpAnswerTerms{is_head, is_http_1_0, keeps_alive,
                      context_.options.max_unread_bytes},
      [self = shared_from_this()] {
        self->stream_->Post([self] { self->Flush(); });
      });
}

void HttpConnection::Dispatch() {
  const bool is_http_1_0 = parser_->is_http_1_0();
  const bool keeps_alive = parser_->keeps_alive();
  HttpRequest request = parser_->TakeRequest();
  BeginAnswer(request.method == "HEAD", is_http_1_0, keeps_alive);
  context_.handler(std::move(request), HttpExchange::MakeReply(exchange_));
  // Else it would go unnoticed: nothing more is read.
  if (input_.has_ended && exchange_->stage() == HttpExchange::Stage::kOpen) {
    Close();
  }
}

void HttpConnection::Refuse(const HttpRefusal& refusal) {
  const HttpRefusal why = refusal;  // it may be the parser's
  spdlog::debug("HTTP: refused a request with {} {}: {}", why.status, why.code,
                why.message);
  const bool is_head = parser_ && parser_->request().method == "HEAD";
  BeginAnswer(is_head, /*is_http_1_0=*/false, /*keeps_alive=*/false);
  input_.is_dropped = true;
  input_.bytes.clear();
  HttpHeaders headers{{"content-type", "application/json"}};
  if (why.status == 503) headers.emplace_back("retry-after", "1");
  exchange_->Send(why.status, std::move(headers),
                  HttpErrorBody(why.status, why.code, why.message));
}

void HttpConnection::Flush() {
  if (exchange_ == nullptr) return;
  using Stage = HttpExchange::Stage;
  if (exchange_->stage() == Stage::kOverflown) return Close();
  if (output_.is_writing) return;
  HttpExchange::Output taken = exchange_->TakeOutput();
  if (!taken.bytes.empty()) {
    output_.bytes = std::move(taken.bytes);
    output_.is_answer = true;
    return Write();
  }
  if (taken.stage == Stage::kCut) return Close();
  if (taken.stage == Stage::kEnded) FinishAnswer();
}

void HttpConnection::Write() {
  output_.is_writing = true;
  if (output_.is_answer) CloseAfter(context_.options.write_timeout);
  stream_->Write(std::string_view(output_.bytes).substr(output_.num_written),
                 [self = shared_from_this()](size_t num_bytes) {
                   self->OnWritten(num_bytes);
                 });
}

void HttpConnection::OnWritten(size_t num_bytes) {
  output_.is_writing = false;
  if (num_bytes == 0) return Close();
  output_.num_written += num_bytes;
  if (output_.is_answer) exchange_->MarkSent(num_bytes);
  if (output_.num_written < output_.bytes.size()) return Write();
  output_.bytes.clear();
  output_.num_written = 0;
  if (state_ != State::kAnswering) return;
  stream_->CancelTimer();
  Flush();
}

void HttpConnection::FinishAnswer() {
  const bool keeps_alive = exchange_->keeps_alive();
  exchange_->Leave();
  exchange_.reset();
  if (!keeps_alive) return Linger();
  BecomeIdle();
  if (!input_.bytes.empty()) Parse();
  if (input_.has_ended && state_ != State::kAnswering) return Close();
  Read();
}

void HttpConnection::Linger() {
  if (input_.has_ended) return Close();
  state_ = State::kLingering;
  input_.is_dropped = true;
  input_.bytes.clear();
  context_.connections.SetIdle(this, true);
  stream_->EndWriting();
  CloseAfter(kLinger);
  Read();
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  stream_->Close();
  UncountBody();
  const std::shared_ptr<HttpExchange> exchange = std::move(exchange_);
  if (exchange != nullptr) exchange->Leave();
  context_.connections.Remove(this);
}

}  // namespace deltafin
