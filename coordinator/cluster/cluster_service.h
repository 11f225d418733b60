// coordinator/cluster/cluster_service.h
//
// ClusterService (proto/cluster.proto) over a registry. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "coordinator/cluster/model_files.h"
#include "coordinator/cluster/node_registry.h"
#include "proto/cluster.grpc.pb.h"

namespace deltafin {

class ClusterService final : public v1::ClusterService::Service {
 public:
  // `registry` and `files` must outlive the service; without files nodes have
  // to bring the model.
  explicit ClusterService(NodeRegistry& registry,
                          const ModelFiles* files = nullptr)
      : registry_(registry), files_(files) {}

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
  grpc::Status FindOwners(grpc::ServerContext* context,
                          const v1::FindOwnersRequest* request,
                          v1::FindOwnersReply* reply) override;
  // Errors: UNIMPLEMENTED without files; those of ModelFiles::Send.
  grpc::Status GetModelFiles(
      grpc::ServerContext* context, const v1::GetModelFilesRequest* request,
      grpc::ServerWriter<v1::ModelFilePiece>* writer) override;

 private:
  NodeRegistry& registry_;
  const ModelFiles* const files_;
};

}  // namespace deltafin
