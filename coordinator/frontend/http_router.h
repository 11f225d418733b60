// coordinator/frontend/http_router.h
//
// Which handler answers an HTTP request, and whether its client may ask:
// API keys, origins of pages (CORS), methods, request ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/net/http_message.h"
#include "coordinator/frontend/api_keys.h"

namespace deltafin {

enum class RouteAccess : uint8_t {
  kOpen,  // without a key
  kKey,   // with one of the keys, if there are any
};

struct ApiRoute {
  std::string method;  // "GET"; it answers HEAD, too
  // The whole path; or what it begins with, if it ends in '/' and is not "/"
  // alone.
  std::string path;
  RouteAccess access = RouteAccess::kKey;
  HttpHandler handler;
};

struct RouterOptions {
  ApiKeys keys;
  // Origins ("https://host:port") whose pages may use the API besides those
  // that this server sends itself; "*": all. Others get 403.
  std::vector<std::string> cors_origins;
};

class HttpRouter {
 public:
  explicit HttpRouter(RouterOptions options);

  // Of two routes that fit, the longer path wins. Before the first request.
  void Add(ApiRoute route);

  // Answers by the route, or with an error of the OpenAI API's shape. Every
  // answer has an X-Request-Id, and what CORS needs. The handler of a server;
  // thread-safe.
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) const;

 private:
  enum class Origin : uint8_t { kOwn, kAllowed, kForeign };

  Origin OriginOf(const HttpRequest& request) const;
  void AnswerPreflight(const HttpRequest& request, HttpReply& reply) const;
  void Route(HttpRequest request, std::shared_ptr<HttpReply> reply) const;
  // The routes whose path fits best.
  std::vector<const ApiRoute*> Find(std::string_view path) const;

  const RouterOptions options_;
  std::vector<ApiRoute> routes_;
};

// Answers with the status as an error of the OpenAI API.
void SendOpenAiError(HttpReply& reply, const absl::Status& status,
                     HttpHeaders headers = {});
void SendJson(HttpReply& reply, std::string json);

}  // namespace deltafin
