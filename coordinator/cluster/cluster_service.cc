#include "coordinator/cluster/cluster_service.h"

#include <utility>

#include "common/base/log.h"
#include "common/net/grpc_status.h"

namespace deltafin {

grpc::Status ClusterService::Join(grpc::ServerContext* context,
                                  const v1::JoinRequest* request,
                                  v1::JoinReply* reply) {
  absl::StatusOr<v1::JoinReply> joined = registry_.Join(*request);
  if (!joined.ok()) {
    spdlog::debug("join from {} refused: {}", context->peer(),
                  joined.status().ToString());
    return ToGrpc(joined.status());
  }
  *reply = *joined;
  return grpc::Status::OK;
}

grpc::Status ClusterService::Heartbeat(grpc::ServerContext*,
                                       const v1::HeartbeatRequest* request,
                                       v1::HeartbeatReply* reply) {
  const absl::StatusOr<v1::HeartbeatReply> heard =
      registry_.Heartbeat(*request);
  if (!heard.ok()) return ToGrpc(heard.status());
  *reply = *heard;
  return grpc::Status::OK;
}

grpc::Status ClusterService::NextCopies(grpc::ServerContext*,
                                        const v1::NextCopiesRequest* request,
                                        v1::NextCopiesReply* reply) {
  absl::StatusOr<v1::NextCopiesReply> copies = registry_.NextCopies(*request);
  if (!copies.ok()) return ToGrpc(copies.status());
  *reply = *std::move(copies);
  return grpc::Status::OK;
}

grpc::Status ClusterService::Leave(grpc::ServerContext*,
                                   const v1::LeaveRequest* request,
                                   v1::LeaveReply*) {
  return ToGrpc(registry_.Leave(*request));
}

grpc::Status ClusterService::FindOwners(grpc::ServerContext*,
                                        const v1::FindOwnersRequest* request,
                                        v1::FindOwnersReply* reply) {
  absl::StatusOr<v1::FindOwnersReply> found = registry_.FindOwners(*request);
  if (!found.ok()) return ToGrpc(found.status());
  *reply = *std::move(found);
  return grpc::Status::OK;
}

grpc::Status ClusterService::GetModelFiles(
    grpc::ServerContext* context, const v1::GetModelFilesRequest* request,
    grpc::ServerWriter<v1::ModelFilePiece>* writer) {
  if (files_ == nullptr) {
    return {grpc::StatusCode::UNIMPLEMENTED,
            "this coordinator gives no model files: start the node with "
            "--model"};
  }
  return ToGrpc(files_->Send(
      request->with_shards(), [&](const v1::ModelFilePiece& piece) {
        return !context->IsCancelled() && writer->Write(piece);
      }));
}

}  // namespace deltafin
