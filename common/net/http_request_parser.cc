#include "common/net/http_request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cctype>
#include <optional>
#include <utility>

#include "common/net/http_response_head.h"
#include "common/net/http_target.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

HttpRefusal BadRequest(std::string message) {
  return {400, "bad_request", std::move(message)};
}

HttpRefusal BodyTooLarge(size_t max_bytes) {
  return {413, "body_too_large",
          fmt::format("the body is larger than {} bytes", max_bytes)};
}

std::string LowerCase(string_view text) {
  std::string lower(text.data(), text.size());
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

size_t CountHeaders(const HttpRequest& request, std::string_view name) {
  return static_cast<size_t>(std::count_if(
      request.headers.begin(), request.headers.end(),
      [name](const auto& header) { return header.first == name; }));
}

bool AreDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// How long the body is must be said in one way only.
std::optional<HttpRefusal> CheckFraming(const HttpRequest& request,
                                        bool is_http_1_0) {
  const size_t num_lengths = CountHeaders(request, "content-length");
  const size_t num_encodings = CountHeaders(request, "transfer-encoding");
  if (num_lengths > 1) return BadRequest("more than one Content-Length");
  if (num_lengths == 1 && !AreDigits(*request.Header("content-length"))) {
    return BadRequest("Content-Length is no number");
  }
  if (num_encodings == 0) return std::nullopt;
  if (num_lengths > 0) {
    return BadRequest("both Content-Length and Transfer-Encoding");
  }
  if (num_encodings > 1 || is_http_1_0 ||
      LowerCase(*request.Header("transfer-encoding")) != "chunked") {
    return BadRequest(
        "the only Transfer-Encoding is \"chunked\", once, in HTTP/1.1");
  }
  return std::nullopt;
}

std::optional<HttpRefusal> CheckHeaders(const HttpRequest& request,
                                        bool is_http_1_0) {
  const size_t num_hosts = CountHeaders(request, "host");
  if (num_hosts > 1) return BadRequest("more than one Host header");
  if (num_hosts == 0 && !is_http_1_0) return BadRequest("no Host header");
  const std::string* expect = request.Header("expect");
  if (expect != nullptr && LowerCase(*expect) != "100-continue") {
    return HttpRefusal{417, "unknown_expectation",
                       "the only Expect that is known is 100-continue"};
  }
  return CheckFraming(request, is_http_1_0);
}

}  // namespace

class HttpRequestParser::Message : public http::basic_parser<true> {
 public:
  HttpRequest request;
  std::string authority;
  bool is_http_1_0 = false;
  std::optional<HttpRefusal> refusal;

  // `rest`, what comes next of a chunked body, begins with a chunk's head that
  // has a quoted value in its extension. The library looks for the end of such
  // a value behind the end of the head.
  bool IsAtQuotedExtension(std::string_view rest) const {
    if (!chunked() || chunk_left_ > 0) return false;
    if (rest.starts_with("\r\n")) rest.remove_prefix(2);  // of the last chunk
    return rest.substr(0, rest.find("\r\n")).find('"') != rest.npos;
  }

 private:
  // Stops the parser.
  void Refuse(HttpRefusal why, error_code& error) {
    refusal = std::move(why);
    error = http::error::bad_target;
  }

  void on_request_impl(http::verb, string_view method, string_view target,
                       int version, error_code& error) override {
    const auto split =
        SplitHttpTarget(std::string_view(target.data(), target.size()));
    if (!split) {
      return Refuse(
          BadRequest("the target is none of /path?query, http://host/path, *"),
          error);
    }
    is_http_1_0 = version == 10;
    request.method.assign(method.data(), method.size());
    authority = split->authority;
    request.path = split->path;
    request.query = split->query;
  }

  void on_field_impl(http::field, string_view name, string_view value,
                     error_code&) override {
    if (has_headers_) return;  // a trailer
    request.headers.emplace_back(LowerCase(name),
                                 std::string(value.data(), value.size()));
  }

  void on_header_impl(error_code& error) override {
    has_headers_ = true;
    if (auto why = CheckHeaders(request, is_http_1_0)) {
      Refuse(*std::move(why), error);
    }
  }

  // Never called for a request.
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&,
                         error_code&) override {}
  void on_chunk_header_impl(std::uint64_t size, string_view,
                            error_code&) override {
    chunk_left_ = size;
  }
  void on_finish_impl(error_code&) override {}

  size_t on_body_impl(string_view bytes, error_code&) override {
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  size_t on_chunk_body_impl(std::uint64_t, string_view bytes,
                            error_code&) override {
    chunk_left_ -= bytes.size();
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  bool has_headers_ = false;
  std::uint64_t chunk_left_ = 0;  // bytes of the chunk that are to come
};

HttpRequestParser::HttpRequestParser(const HttpRequestLimits& limits)
    : limits_(limits), message_(std::make_unique<Message>()) {
  // Our own scan comes first; the library's counts only trailers.
  message_->header_limit(static_cast<std::uint32_t>(
      std::min<size_t>(limits.max_header_bytes + 4, UINT32_MAX)));
  message_->body_limit(limits.max_body_bytes);
}

HttpRequestParser::~HttpRequestParser() = default;

void HttpRequestParser::Refuse(HttpRefusal refusal) {
  state_ = State::kRefused;
  refusal_ = std::move(refusal);
}

bool HttpRequestParser::CheckHeaderByte(char c) {
  const bool is_control = (c >= 0 && c < ' ') || c == 0x7f;
  const char* why = nullptr;
  if ((c == '\n') != (last_ == '\r')) {
    why = "a line of the headers does not end in CR LF";
  } else if (last_ == '\n' && (c == ' ' || c == '\t') && num_scanned_ > 0) {
    why = "a header goes on in the next line";
  } else if (is_control && c != '\t' && c != '\r' && c != '\n') {
    why = "a control character in the headers";
  }
  if (why != nullptr) Refuse(BadRequest(why));
  return why == nullptr;
}

bool HttpRequestParser::FindHeaderEnd(std::string_view bytes) {
  while (num_scanned_ < bytes.size()) {
    if (num_scanned_ >= limits_.max_header_bytes) {
      Refuse(
          has_line_
              ? HttpRefusal{431, "headers_too_large",
                            fmt::format("the headers are longer than {} bytes",
                                        limits_.max_header_bytes)}
              : HttpRefusal{
                    414, "target_too_long",
                    fmt::format("the request line is longer than {} bytes",
                                limits_.max_header_bytes)});
      return false;
    }
    const char c = bytes[num_scanned_];
    if (!CheckHeaderByte(c)) return false;
    ++num_scanned_;
    last_ = c;
    if (c == '\n') {
      if (is_line_empty_) return true;
      has_line_ = true;
      is_line_empty_ = true;
    } else if (c != '\r') {
      is_line_empty_ = false;
    }
  }
  return false;
}

size_t HttpRequestParser::TakeHeaders(std::string_view bytes) {
  size_t skipped = 0;
  // An empty line before a request is what some clients put behind a body.
  if (num_scanned_ == 0) {
    while (bytes.substr(skipped, 2) == "\r\n") skipped += 2;
    bytes.remove_prefix(skipped);
    if (bytes == "\r") return skipped;
  }
  if (!FindHeaderEnd(bytes)) return skipped;
  error_code error;
  const size_t taken =
      message_->put(boost::asio::buffer(bytes.data(), num_scanned_), error);
  if (error == http::error::body_limit) {
    Refuse(BodyTooLarge(limits_.max_body_bytes));
  } else if (message_->refusal) {
    Refuse(*message_->refusal);
  } else if (error || taken != num_scanned_) {
    Refuse(BadRequest(
        fmt::format("this is no HTTP/1.1 request ({})", error.message())));
  } else {
    state_ = message_->is_done() ? State::kComplete : State::kBody;
  }
  return skipped + taken;
}

size_t HttpRequestParser::TakeBody(std::string_view bytes) {
  // Every rest of a chunked body has that many; with less the library asserts
  // when it comes back to the last chunk.
  const size_t least = message_->chunked() ? kLastHttpChunk.size() : 1;
  size_t taken = 0;
  while (taken + least <= bytes.size()) {
    if (message_->IsAtQuotedExtension(bytes.substr(taken))) {
      Refuse(BadRequest("a chunk has an extension with a quoted value"));
      return taken;
    }
    error_code error;
    const size_t used = message_->put(
        boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += used;
    if (error == http::error::need_more) {
      if (bytes.size() - taken > limits_.max_header_bytes) {
        Refuse({431, "headers_too_large",
                fmt::format("the head of a chunk or the trailers are longer "
                            "than {} bytes",
                            limits_.max_header_bytes)});
      }
      return taken;
    }
    if (error == http::error::body_limit) {
      Refuse(BodyTooLarge(limits_.max_body_bytes));
      return taken;
    }
    if (error) {
      Refuse(BadRequest(
          fmt::format("the chunked body is damaged ({})", error.message())));
      return taken;
    }
    if (message_->is_done()) {
      state_ = State::kComplete;
      return taken;
    }
  }
  return taken;
}

size_t HttpRequestParser::Take(std::string_view bytes) {
  size_t taken = 0;
  if (state_ == State::kHeaders) taken = TakeHeaders(bytes);
  if (state_ == State::kBody) taken += TakeBody(bytes.substr(taken));
  return taken;
}

bool HttpRequestParser::is_http_1_0() const { return message_->is_http_1_0; }
bool HttpRequestParser::keeps_alive() const {
  return !is_http_1_0() && message_->keep_alive();
}
bool HttpRequestParser::expects_continue() const {
  return !is_http_1_0() && request().Header("expect") != nullptr;
}
const std::string& HttpRequestParser::authority() const {
  return message_->authority;
}
size_t HttpRequestParser::body_bytes() const { return request().body.size(); }
const HttpRequest& HttpRequestParser::request() const {
  return message_->request;
}
HttpRequest HttpRequestParser::TakeRequest() {
  return std::move(message_->request);
}

}  // namespace deltafin
