// A request's bytes are refused or give a request, the same one however they
// come; what is left over is the next request's. Its host and target do not
// crash what reads them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/net/http_request_parser.h"
#include "common/net/http_target.h"

namespace {

using deltafin::HttpRequest;
using deltafin::HttpRequestParser;
using State = HttpRequestParser::State;

constexpr deltafin::HttpRequestLimits kLimits = {2048, 4096};

// Returns what the parser left over.
std::string Feed(HttpRequestParser& parser, std::string_view bytes,
                 size_t piece) {
  std::string waiting;
  while (!bytes.empty()) {
    waiting += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    const size_t taken = parser.Take(waiting);
    if (taken > waiting.size()) std::abort();
    waiting.erase(0, taken);
    // What waits is bounded.
    if (parser.state() != State::kComplete &&
        parser.state() != State::kRefused &&
        waiting.size() > kLimits.max_header_bytes + piece) {
      std::abort();
    }
  }
  return waiting;
}

void CheckRequest(const HttpRequest& request) {
  if (request.method.empty() || request.path.empty() ||
      request.body.size() > kLimits.max_body_bytes) {
    std::abort();
  }
  for (const auto& [name, value] : request.headers) {
    const std::string line = name + value;
    if (name.empty() || line.find_first_of("\r\n") != std::string::npos ||
        line.find('\0') != std::string::npos) {
      std::abort();
    }
  }
  const auto is = [&request](std::string_view name) {
    return std::count_if(request.headers.begin(), request.headers.end(),
                         [name](const auto& h) { return h.first == name; });
  };
  if (is("content-length") + is("transfer-encoding") > 1) std::abort();
  if (is("host") > 1) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  deltafin::SplitHttpTarget(bytes);
  if (const auto name = deltafin::HttpHostName(bytes)) {
    if (name->find_first_of("/@[]\r\n ") != std::string::npos) std::abort();
    deltafin::HttpHostPolicy("localhost", /*is_public=*/true, {"a.b"})
        .Allows(*name);
  }
  HttpRequestParser whole(kLimits);
  const std::string whole_rest = Feed(whole, bytes, bytes.size() + 1);
  for (const size_t piece : {size_t{1}, size_t{7}}) {
    HttpRequestParser cut(kLimits);
    const std::string rest = Feed(cut, bytes, piece);
    if (cut.state() != whole.state()) std::abort();
    if (cut.state() != State::kComplete) continue;
    if (rest != whole_rest || cut.request().method != whole.request().method ||
        cut.request().path != whole.request().path ||
        cut.request().headers != whole.request().headers ||
        cut.request().body != whole.request().body) {
      std::abort();
    }
  }
  if (whole.state() == State::kComplete) CheckRequest(whole.TakeRequest());
  return 0;
}
