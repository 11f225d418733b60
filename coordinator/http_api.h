// coordinator/http_api.h
//
// The HTTP side of a coordinator put together: server, router, OpenAI API and
// web page.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/net/http_server.h"
#include "coordinator/coordinator.h"
#include "coordinator/frontend/http_router.h"
#include "coordinator/frontend/openai_service.h"
#include "coordinator/web_routes.h"

namespace deltafin {

struct HttpApiOptions {
  // HOST:PORT; beyond loopback with `tls` and `keys` only. Empty: no HTTP.
  std::string listen;
  HttpTlsFiles tls;
  ApiKeys keys;
  std::vector<std::string> cors_origins;
  // Names of this server in Host headers, besides those of `listen`.
  std::vector<std::string> allowed_hosts;
  // Tests: another one.
  const Clock* clock = &SystemClock();
};

// What is wrong with the options themselves. Errors: those of
// CheckHttpServerOptions.
absl::Status CheckHttpApiOptions(const HttpApiOptions& options);

class HttpApi {
 public:
  // Serves until Shutdown. `model_name` is what clients call the model. The
  // coordinator must be started, and outlive this. Errors: those of
  // HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<HttpApi>> Start(
      const HttpApiOptions& options, Coordinator& coordinator,
      const std::string& model_name);
  // Ends what still runs.
  ~HttpApi();
  HttpApi(const HttpApi&) = delete;
  HttpApi& operator=(const HttpApi&) = delete;

  // http://HOST:PORT, with the port that was bound.
  std::string url() const;
  // See HttpServer::Shutdown. Who looks on at the cluster is not waited for.
  void Shutdown(absl::Duration drain);

 private:
  HttpApi() = default;

  std::unique_ptr<OpenAiService> service_;
  std::unique_ptr<WebRoutes> web_;
  std::unique_ptr<HttpRouter> router_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace deltafin
