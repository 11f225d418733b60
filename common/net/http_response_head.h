// common/net/http_response_head.h
//
// How an HTTP/1.1 answer is written: status line, headers, chunks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/net/http_message.h"

namespace deltafin {

enum class HttpBodyForm : uint8_t { kWhole, kChunked, kUntilClose };

struct HttpResponseTerms {
  int status = 200;
  HttpBodyForm form = HttpBodyForm::kWhole;
  size_t body_bytes = 0;  // of kWhole
  bool is_last = false;   // the connection ends with it
};

// Names are tokens, values hold no control character but tab, and none says
// what HttpResponseHead adds: Connection, Content-Length, Date,
// Transfer-Encoding.
bool AreValidHttpHeaders(const HttpHeaders& headers);

// Up to the empty line, with it. REQUIRES: AreValidHttpHeaders.
std::string HttpResponseHead(const HttpResponseTerms& terms,
                             const HttpHeaders& headers);

// 204 and 304 have none.
bool HttpStatusHasBody(int status);

// `data` must not be empty: that would end the stream.
std::string HttpChunk(std::string_view data);
inline constexpr std::string_view kLastHttpChunk = "0\r\n\r\n";
inline constexpr std::string_view kHttpContinue =
    "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace deltafin
