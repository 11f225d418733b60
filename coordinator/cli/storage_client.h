// coordinator/cli/storage_client.h
//
// A program's StorageService, called from the command line. Thread-compatible.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/credentials.h"
#include "proto/storage.grpc.pb.h"

namespace deltafin {

class StorageClient {
 public:
  // `flag` has the address as its value. Errors: those of ConnectAdmin.
  static absl::StatusOr<StorageClient> Create(
      const std::string& flag, const std::string& address,
      const CredentialFiles& credentials);

  // All block for a few seconds at most, Fetch as long as it takes. Errors:
  // UNAVAILABLE with what to do when nobody answers; FAILED_PRECONDITION for a
  // program that keeps nothing; those of the service.
  absl::StatusOr<v1::StorageReport> Get();
  absl::StatusOr<v1::StorageReport> SetQuota(const v1::SetQuotaRequest& quota);
  absl::StatusOr<v1::StorageReport> Remove(const v1::StoredExpert& expert);
  absl::StatusOr<v1::StorageReport> Fetch(const v1::StoredExpert& expert);

 private:
  StorageClient(std::string address,
                std::unique_ptr<v1::StorageService::Stub> stub)
      : address_(std::move(address)), stub_(std::move(stub)) {}
  absl::Status Describe(const grpc::Status& status) const;

  std::string address_;
  std::unique_ptr<v1::StorageService::Stub> stub_;
};

}  // namespace deltafin
