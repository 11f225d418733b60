#include "coordinator/http_api.h"

#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/coordinator_metrics.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Prompts are tokenized where their requests are read.
constexpr int kNumThreads = 4;
// A prompt of a million tokens takes some 5 MB.
constexpr size_t kMaxBodyBytes = size_t{32} << 20;
// More than a resumed stream may have kept (EventStreamOptions).
constexpr size_t kMaxUnreadBytes = size_t{16} << 20;
constexpr size_t kShownDigits = 12;

HttpServerOptions ServerOptionsOf(const HttpApiOptions& options) {
  HttpServerOptions server;
  server.listen = options.listen;
  server.tls = options.tls;
  server.is_authenticated = !options.keys.empty();
  server.allowed_hosts = options.allowed_hosts;
  server.num_threads = kNumThreads;
  server.max_body_bytes = kMaxBodyBytes;
  server.max_unread_bytes = kMaxUnreadBytes;
  return server;
}

OpenAiServiceOptions DescribeService(const HttpApiOptions& options,
                                     const Coordinator& coordinator,
                                     const std::string& model_name) {
  const ModelIdentity& model = coordinator.model();
  const RunSettings settings = coordinator.settings();
  OpenAiServiceOptions service;
  service.model.name = model_name;
  service.model.fingerprint =
      fmt::format("fp_{}_{}", model.manifest_digest.substr(0, kShownDigits),
                  settings.spine);
  service.model.created = options.clock->Now();
  service.model.context_tokens = settings.context_tokens;
  service.model.bos_token_id = model.spec.bos_token_id;
  service.eos_token_id = model.spec.eos_token_id;
  service.clock = options.clock;
  service.is_serving = [&coordinator] {
    return coordinator.registry().health().verdict() != v1::ClusterHealth::DOWN;
  };
  service.metrics = [&coordinator] {
    MetricsPage page;
    AddCoordinatorMetrics(coordinator, page);
    return page.text();
  };
  return service;
}

}  // namespace

absl::Status CheckHttpApiOptions(const HttpApiOptions& options) {
  return CheckHttpServerOptions(ServerOptionsOf(options));
}

absl::StatusOr<std::unique_ptr<HttpApi>> HttpApi::Start(
    const HttpApiOptions& options, Coordinator& coordinator,
    const std::string& model_name) {
  std::unique_ptr<HttpApi> api(new HttpApi());
  api->service_ = std::make_unique<OpenAiService>(
      DescribeService(options, coordinator, model_name),
      coordinator.tokenizer(), coordinator.scheduler());
  api->router_ = std::make_unique<HttpRouter>(
      RouterOptions{options.keys, options.cors_origins});
  api->service_->AddRoutes(*api->router_);
  api->web_ = std::make_unique<WebRoutes>(coordinator, model_name);
  for (ApiRoute& route : api->web_->Routes()) {
    api->router_->Add(std::move(route));
  }
  ASSIGN_OR_RETURN(
      api->server_,
      HttpServer::Start(
          ServerOptionsOf(options),
          [router = api->router_.get()](HttpRequest request,
                                        std::shared_ptr<HttpReply> reply) {
            router->Handle(std::move(request), std::move(reply));
          }));
  return api;
}

HttpApi::~HttpApi() {
  if (server_ != nullptr) Shutdown(absl::ZeroDuration());
}

void HttpApi::Shutdown(absl::Duration drain) {
  web_->Shutdown();
  server_->Shutdown(drain);
}

std::string HttpApi::url() const {
  return fmt::format("{}://{}", server_->is_tls() ? "https" : "http",
                     server_->address());
}

}  // namespace deltafin
