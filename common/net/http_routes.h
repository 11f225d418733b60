// common/net/http_routes.h
//
// What handlers of an HTTP server have in common: pages at fixed paths, and
// answers to requests that have no other.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/http_message.h"

namespace deltafin {

// A page that is made anew for each GET.
struct HttpRoute {
  std::string path;  // exact, "/metrics"
  std::string content_type;
  // The body. Called on the server's threads, several at once; must outlive the
  // server.
  std::function<std::string()> body;
};

// Answers GET and HEAD of these paths; 405 and 404 to all else.
HttpHandler FixedRoutes(std::vector<HttpRoute> routes);

// A JSON object that clients of the OpenAI API can read:
//   {"error": {"message": ..., "type": ..., "param": null, "code": ...}}
// The type is "server_error" for statuses from 500 on, otherwise
// "invalid_request_error". Bytes of `message` that are no UTF-8 are replaced.
std::string HttpErrorBody(int status, std::string_view code,
                          std::string_view message);

// Sends that body as application/json, with further headers.
void SendHttpError(HttpReply& reply, int status, std::string_view code,
                   std::string_view message, HttpHeaders headers = {});

// 404, code "not_found".
void SendNotFound(HttpReply& reply, std::string_view path);
// 405, code "method_not_allowed"; `allow` is the Allow header, "GET, HEAD".
void SendMethodNotAllowed(HttpReply& reply, std::string_view allow);

}  // namespace deltafin
