#include "coordinator/cli/storage_client.h"

#include <grpcpp/grpcpp.h>

#include "common/base/status_macros.h"
#include "common/net/credentials.h"
#include "coordinator/cli/admin_client.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

absl::StatusOr<StorageClient> StorageClient::Create(
    const std::string& flag, const std::string& address,
    const CredentialFiles& credentials) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   ConnectAdmin(flag, address, credentials));
  return StorageClient(address, v1::StorageService::NewStub(channel));
}

absl::StatusOr<v1::StorageReport> StorageClient::Get() {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::StorageReport report;
  RETURN_IF_ERROR(Describe(stub_->GetStorage(&context, {}, &report)));
  return report;
}

absl::StatusOr<v1::StorageReport> StorageClient::SetQuota(
    const v1::SetQuotaRequest& quota) {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::StorageReport report;
  RETURN_IF_ERROR(Describe(stub_->SetQuota(&context, quota, &report)));
  return report;
}

absl::StatusOr<v1::StorageReport> StorageClient::Remove(
    const v1::StoredExpert& expert) {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::StorageReport report;
  RETURN_IF_ERROR(Describe(stub_->RemoveExpert(&context, expert, &report)));
  return report;
}

absl::StatusOr<v1::StorageReport> StorageClient::Fetch(
    const v1::StoredExpert& expert) {
  grpc::ClientContext context;
  v1::StorageReport report;
  RETURN_IF_ERROR(Describe(stub_->FetchExpert(&context, expert, &report)));
  return report;
}

absl::Status StorageClient::Describe(const grpc::Status& status) const {
  const absl::Status raw = AdminStatus(status);
  const absl::Status explained = ExplainConnection(raw);
  if (explained != raw) return AddContext(explained, address_);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(
          fmt::format("{}: {}; is `deltafin-node` or `deltafin serve` running "
                      "there?",
                      address_, status.error_message()));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return AddContext(raw, address_);
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::FailedPreconditionError(fmt::format(
          "what answers at {} keeps no experts: its model is a directory of "
          "released shards, or it has none of its own",
          address_));
    default:
      return raw;
  }
}

}  // namespace deltafin
