#include "common/net/http_response_head.h"

#include <algorithm>
#include <cctype>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

struct Reason {
  int status;
  const char* text;
};

// RFC 9110, section 15, and RFC 6585.
constexpr Reason kReasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

constexpr std::string_view kReserved[] = {"connection", "content-length",
                                          "date", "transfer-encoding"};

std::string_view ReasonOf(int status) {
  const auto* const found =
      std::find_if(std::begin(kReasons), std::end(kReasons),
                   [status](const Reason& r) { return r.status == status; });
  return found == std::end(kReasons) ? "" : found->text;
}

bool IsTokenCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsValueCharacter(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

bool IsReserved(std::string_view name) {
  return std::any_of(
      std::begin(kReserved), std::end(kReserved), [name](std::string_view own) {
        return own.size() == name.size() &&
               std::equal(
                   name.begin(), name.end(), own.begin(), [](char a, char b) {
                     return std::tolower(static_cast<unsigned char>(a)) == b;
                   });
      });
}

}  // namespace

bool AreValidHttpHeaders(const HttpHeaders& headers) {
  return std::all_of(headers.begin(), headers.end(), [](const auto& header) {
    const auto& [name, value] = header;
    return !name.empty() && !IsReserved(name) &&
           std::all_of(name.begin(), name.end(), IsTokenCharacter) &&
           std::all_of(value.begin(), value.end(), IsValueCharacter);
  });
}

bool HttpStatusHasBody(int status) { return status != 204 && status != 304; }

std::string HttpResponseHead(const HttpResponseTerms& terms,
                             const HttpHeaders& headers) {
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {}\r\n", terms.status, ReasonOf(terms.status),
      absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(),
                       absl::UTCTimeZone()));
  if (HttpStatusHasBody(terms.status)) {
    if (terms.form == HttpBodyForm::kWhole) {
      head += fmt::format("Content-Length: {}\r\n", terms.body_bytes);
    } else if (terms.form == HttpBodyForm::kChunked) {
      head += "Transfer-Encoding: chunked\r\n";
    }
  }
  if (terms.is_last) head += "Connection: close\r\n";
  for (const auto& [name, value] : headers) {
    head += fmt::format("{}: {}\r\n", name, value);
  }
  head += "\r\n";
  return head;
}

std::string HttpChunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace deltafin
