// coordinator/cluster/admin_service.h
//
// AdminService (proto/admin.proto) over a registry. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <functional>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/node_registry.h"
#include "proto/admin.grpc.pb.h"

namespace deltafin {

class AdminService final : public v1::AdminService::Service {
 public:
  // What the engine remembers of a request; 0: the last one.
  using ExplainFunction =
      std::function<absl::StatusOr<v1::Explanation>(uint64_t request)>;

  // Whoever waits for a drain, without the transport.
  struct DrainListener {
    std::function<bool(const v1::DrainProgress&)> write;  // false: went away
    std::function<bool()> is_gone;
  };

  // `registry` must outlive the service; `explain` may be called until then.
  AdminService(NodeRegistry& registry, ExplainFunction explain)
      : registry_(registry), explain_(std::move(explain)) {}

  // Ends the drains that are being watched with UNAVAILABLE; further ones end
  // at once. The nodes stay out of service.
  void EndDrains();

  grpc::Status GetHealth(grpc::ServerContext* context,
                         const v1::GetHealthRequest* request,
                         v1::ClusterHealth* reply) override;
  // Blocks its thread until the node may be switched off, the deadline passes,
  // or the caller goes away; the node stays out of service then.
  grpc::Status Drain(grpc::ServerContext* context,
                     const v1::DrainRequest* request,
                     grpc::ServerWriter<v1::DrainProgress>* writer) override;
  // The same.
  absl::Status RunDrain(const v1::DrainRequest& request,
                        const DrainListener& listener);
  grpc::Status GetPlacement(grpc::ServerContext* context,
                            const v1::GetPlacementRequest* request,
                            v1::PlacementReport* reply) override;
  grpc::Status Explain(grpc::ServerContext* context,
                       const v1::ExplainRequest* request,
                       v1::Explanation* reply) override;

 private:
  absl::Status WatchDrain(int slot, absl::Time deadline,
                          const DrainListener& listener);
  // False: drains end now.
  bool PauseDrain();

  NodeRegistry& registry_;
  const ExplainFunction explain_;
  Mutex mutex_;
  CondVar changed_;
  bool drains_end_ ABSL_GUARDED_BY(mutex_) = false;
  int num_drains_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace deltafin
