#include "coordinator/web_routes.h"

#include <utility>

#include "common/base/clock.h"

namespace deltafin {
namespace {

ClusterTitle TitleOf(const Coordinator& coordinator,
                     const std::string& model_name) {
  const RunSettings settings = coordinator.settings();
  return {model_name, settings.spine, settings.kernel, DELTAFIN_VERSION};
}

}  // namespace

WebRoutes::WebRoutes(const Coordinator& coordinator,
                     const std::string& model_name)
    : report_(TitleOf(coordinator, model_name), coordinator.registry(),
              coordinator.scheduler(), coordinator.dispatcher(), SystemClock()),
      feed_(ClusterFeedOptions(), {[this] { return report_.Snapshot(); },
                                   [this] { return report_.Heat(); }}) {}

std::vector<ApiRoute> WebRoutes::Routes() {
  std::vector<ApiRoute> routes;
  for (const std::string& path : page_.paths()) {
    routes.push_back({"GET", path, RouteAccess::kOpen,
                      [this](const HttpRequest& request,
                             const std::shared_ptr<HttpReply>& reply) {
                        page_.Handle(request, *reply);
                      }});
  }
  routes.push_back(
      {"GET", "/api/cluster", RouteAccess::kKey,
       [this](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
         feed_.SendSnapshot(std::move(reply));
       }});
  routes.push_back(
      {"GET", "/api/cluster/events", RouteAccess::kKey,
       [this](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
         feed_.AddStream(std::move(reply));
       }});
  return routes;
}

}  // namespace deltafin
