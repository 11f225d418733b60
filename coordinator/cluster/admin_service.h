// coordinator/cluster/admin_service.h
//
// AdminService (proto/admin.proto) over a registry. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include "coordinator/cluster/node_registry.h"
#include "proto/admin.grpc.pb.h"

namespace deltafin {

class AdminService final : public v1::AdminService::Service {
 public:
  // `registry` must outlive the service.
  explicit AdminService(const NodeRegistry& registry) : registry_(registry) {}

  grpc::Status GetHealth(grpc::ServerContext* context,
                         const v1::GetHealthRequest* request,
                         v1::ClusterHealth* reply) override;

 private:
  const NodeRegistry& registry_;
};

}  // namespace deltafin
