#include "common/net/http_routes.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

HttpHandler FixedRoutes(std::vector<HttpRoute> routes) {
  const auto shared =
      std::make_shared<const std::vector<HttpRoute>>(std::move(routes));
  return [shared](const HttpRequest& request,
                  const std::shared_ptr<HttpReply>& reply) {
    const auto found = std::find_if(shared->begin(), shared->end(),
                                    [&request](const HttpRoute& route) {
                                      return route.path == request.path;
                                    });
    if (found == shared->end()) return SendNotFound(*reply, request.path);
    if (request.method != "GET" && request.method != "HEAD") {
      return SendMethodNotAllowed(*reply, "GET, HEAD");
    }
    reply->Send(200, {{"content-type", found->content_type}}, found->body());
  };
}

std::string HttpErrorBody(int status, std::string_view code,
                          std::string_view message) {
  const nlohmann::ordered_json body = {
      {"error",
       {{"message", message},
        {"type", status >= 500 ? "server_error" : "invalid_request_error"},
        {"param", nullptr},
        {"code", code}}}};
  return body.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

void SendHttpError(HttpReply& reply, int status, std::string_view code,
                   std::string_view message, HttpHeaders headers) {
  headers.insert(headers.begin(), {"content-type", "application/json"});
  reply.Send(status, std::move(headers), HttpErrorBody(status, code, message));
}

void SendNotFound(HttpReply& reply, std::string_view path) {
  SendHttpError(reply, 404, "not_found",
                fmt::format("there is nothing at '{}'", path));
}

void SendMethodNotAllowed(HttpReply& reply, std::string_view allow) {
  SendHttpError(reply, 405, "method_not_allowed",
                fmt::format("this path answers {} only", allow),
                {{"allow", std::string(allow)}});
}

}  // namespace deltafin
