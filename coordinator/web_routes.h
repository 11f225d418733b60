// coordinator/web_routes.h
//
// The web page of a coordinator, and the cluster that it shows, as routes of
// its HTTP API. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/frontend/cluster_feed.h"
#include "coordinator/frontend/cluster_report.h"
#include "coordinator/frontend/http_router.h"
#include "coordinator/frontend/web_page.h"

namespace deltafin {

class WebRoutes {
 public:
  // `model_name` is what clients call the model. The coordinator must be
  // started, and outlive this; this must outlive the HTTP server.
  WebRoutes(const Coordinator& coordinator, const std::string& model_name);

  // The files of the page at / without a key; /api/cluster and
  // /api/cluster/events with one where there are any.
  std::vector<ApiRoute> Routes();

  // Ends the streams of those who look on, which would go on for ever.
  // Idempotent.
  void Shutdown() { feed_.Shutdown(); }

 private:
  const WebPage page_;
  ClusterReport report_;  // of the feed's thread
  ClusterFeed feed_;
};

}  // namespace deltafin
