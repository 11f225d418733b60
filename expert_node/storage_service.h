// expert_node/storage_service.h
//
// The gRPC face of what a node keeps on its drive. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "common/base/random_id.h"
#include "expert_node/storage/stored_experts.h"
#include "proto/storage.grpc.pb.h"

namespace deltafin {

class StorageService final : public v1::StorageService::Service {
 public:
  // `experts` must outlive the service.
  explicit StorageService(StoredExperts& experts)
      : experts_(experts), program_(RandomId()) {}

  grpc::Status GetStorage(grpc::ServerContext* context,
                          const v1::GetStorageRequest* request,
                          v1::StorageReport* reply) override;
  grpc::Status SetQuota(grpc::ServerContext* context,
                        const v1::SetQuotaRequest* request,
                        v1::StorageReport* reply) override;
  grpc::Status RemoveExpert(grpc::ServerContext* context,
                            const v1::StoredExpert* request,
                            v1::StorageReport* reply) override;
  grpc::Status FetchExpert(grpc::ServerContext* context,
                           const v1::StoredExpert* request,
                           v1::StorageReport* reply) override;

 private:
  // `removed`: by this call, or why it failed.
  grpc::Status Answer(const absl::StatusOr<int>& removed,
                      v1::StorageReport* reply) const;

  StoredExperts& experts_;
  const std::string program_;
};

}  // namespace deltafin
