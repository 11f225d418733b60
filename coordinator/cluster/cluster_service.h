// coordinator/cluster/cluster_service.h
//
// ClusterService (proto/cluster.proto) over a registry. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include "coordinator/cluster/node_registry.h"
#include "proto/cluster.grpc.pb.h"

namespace deltafin {

class ClusterService final : public v1::ClusterService::Service {
 public:
  // `registry` must outlive the service.
  explicit ClusterService(NodeRegistry& registry) : registry_(registry) {}

  // Errors: the registry's.
  grpc::Status Join(grpc::ServerContext* context,
                    const v1::JoinRequest* request,
                    v1::JoinReply* reply) override;
  grpc::Status Heartbeat(grpc::ServerContext* context,
                         const v1::HeartbeatRequest* request,
                         v1::HeartbeatReply* reply) override;
  grpc::Status NextCopies(grpc::ServerContext* context,
                          const v1::NextCopiesRequest* request,
                          v1::NextCopiesReply* reply) override;
  grpc::Status Leave(grpc::ServerContext* context,
                     const v1::LeaveRequest* request,
                     v1::LeaveReply* reply) override;

 private:
  NodeRegistry& registry_;
};

}  // namespace deltafin
