#include "coordinator/frontend/http_router.h"

#include <algorithm>
#include <utility>

#include "common/base/random_id.h"
#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_error.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kExposedHeaders[] =
    "X-Request-Id, Retry-After, X-Estimated-First-Token-Seconds, X-Stream-Id";

// A reply whose answer gets further headers.
class DecoratedReply final : public HttpReply {
 public:
  DecoratedReply(std::shared_ptr<HttpReply> reply, HttpHeaders headers)
      : reply_(std::move(reply)), headers_(std::move(headers)) {}

  void Send(int status, HttpHeaders headers, std::string body) override {
    reply_->Send(status, Join(std::move(headers)), std::move(body));
  }
  void Begin(int status, HttpHeaders headers) override {
    reply_->Begin(status, Join(std::move(headers)));
  }
  bool Write(std::string data) override {
    return reply_->Write(std::move(data));
  }
  void End() override { reply_->End(); }
  void OnGone(std::function<void()> f) override {
    reply_->OnGone(std::move(f));
  }

 private:
  HttpHeaders Join(HttpHeaders headers) const {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    return headers;
  }

  const std::shared_ptr<HttpReply> reply_;
  const HttpHeaders headers_;
};

bool Fits(const ApiRoute& route, std::string_view path) {
  if (route.path.size() > 1 && route.path.ends_with('/')) {
    return path.starts_with(route.path) && path.size() > route.path.size();
  }
  return path == route.path;
}

void SendError(HttpReply& reply, int status, std::string_view code,
               std::string_view message, HttpHeaders headers) {
  headers.emplace_back("Content-Type", "application/json");
  const std::string fields = JsonObject()
                                 .Text("message", ReplaceInvalidUtf8(message))
                                 .Text("type", "invalid_request_error")
                                 .Null("param")
                                 .Text("code", code)
                                 .text();
  reply.Send(status, std::move(headers),
             JsonObject().Json("error", fields).text());
}

bool IsPreflight(const HttpRequest& request) {
  return request.method == "OPTIONS" &&
         request.Header("access-control-request-method") != nullptr;
}

}  // namespace

HttpRouter::HttpRouter(RouterOptions options) : options_(std::move(options)) {}

void HttpRouter::Add(ApiRoute route) { routes_.push_back(std::move(route)); }

HttpRouter::Origin HttpRouter::OriginOf(const HttpRequest& request) const {
  const std::string* origin = request.Header("origin");
  if (origin == nullptr) return Origin::kOwn;
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*" || allowed == *origin) return Origin::kAllowed;
  }
  const std::string* host = request.Header("host");
  const bool is_own = host != nullptr && (*origin == "http://" + *host ||
                                          *origin == "https://" + *host);
  return is_own ? Origin::kOwn : Origin::kForeign;
}

void HttpRouter::Handle(HttpRequest request,
                        std::shared_ptr<HttpReply> reply) const {
  HttpHeaders headers = {{"X-Request-Id", "req_" + RandomId()}};
  if (!options_.cors_origins.empty()) headers.emplace_back("Vary", "Origin");
  const Origin origin = OriginOf(request);
  if (origin == Origin::kAllowed) {
    headers.emplace_back("Access-Control-Allow-Origin",
                         *request.Header("origin"));
    headers.emplace_back("Access-Control-Expose-Headers", kExposedHeaders);
  }
  auto decorated =
      std::make_shared<DecoratedReply>(std::move(reply), std::move(headers));
  if (origin == Origin::kForeign) {
    SendError(*decorated, 403, "forbidden_origin",
              "pages of this origin may not use the API: see --cors-origin",
              {});
  } else if (origin == Origin::kAllowed && IsPreflight(request)) {
    AnswerPreflight(request, *decorated);
  } else {
    Route(std::move(request), std::move(decorated));
  }
}

void HttpRouter::AnswerPreflight(const HttpRequest& request,
                                 HttpReply& reply) const {
  HttpHeaders headers = {
      {"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE"},
      {"Access-Control-Max-Age", "600"}};
  if (const std::string* asked =
          request.Header("access-control-request-headers");
      asked != nullptr) {
    headers.emplace_back("Access-Control-Allow-Headers", *asked);
  }
  reply.Send(204, std::move(headers), "");
}

std::vector<const ApiRoute*> HttpRouter::Find(std::string_view path) const {
  std::vector<const ApiRoute*> found;
  for (const ApiRoute& route : routes_) {
    if (!Fits(route, path)) continue;
    if (!found.empty() && route.path.size() > found[0]->path.size()) {
      found.clear();
    }
    if (found.empty() || route.path == found[0]->path) found.push_back(&route);
  }
  return found;
}

void HttpRouter::Route(HttpRequest request,
                       std::shared_ptr<HttpReply> reply) const {
  const std::vector<const ApiRoute*> routes = Find(request.path);
  if (routes.empty()) {
    return SendError(
        *reply, 404, "not_found",
        fmt::format("there is nothing at {}", request.path.substr(0, 200)), {});
  }
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  const auto route = std::find_if(
      routes.begin(), routes.end(),
      [&](const ApiRoute* known) { return known->method == method; });
  if (route == routes.end()) {
    std::string allow;
    for (const ApiRoute* known : routes) {
      if (!allow.empty()) allow += ", ";
      allow += known->method == "GET" ? "GET, HEAD" : known->method;
    }
    return SendError(*reply, 405, "method_not_allowed",
                     fmt::format("{} takes {}", (*routes[0]).path, allow),
                     {{"Allow", allow}});
  }
  const std::string* shown = request.Header("authorization");
  if ((*route)->access == RouteAccess::kKey &&
      !options_.keys.Accept(shown == nullptr ? "" : *shown)) {
    return SendError(*reply, 401, "invalid_api_key",
                     "a key is needed: Authorization: Bearer KEY",
                     {{"WWW-Authenticate", "Bearer"}});
  }
  (*route)->handler(std::move(request), std::move(reply));
}

void SendOpenAiError(HttpReply& reply, const absl::Status& status,
                     HttpHeaders headers) {
  headers.emplace_back("Content-Type", "application/json");
  reply.Send(ToOpenAiError(status).http_status, std::move(headers),
             OpenAiErrorJson(status));
}

void SendJson(HttpReply& reply, std::string json) {
  reply.Send(200, {{"Content-Type", "application/json"}}, std::move(json));
}

}  // namespace deltafin
