// coordinator/cli/admin_client.h
//
// A coordinator's AdminService, called from the command line.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/credentials.h"
#include "proto/admin.grpc.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

inline constexpr char kDefaultCoordinator[] = "127.0.0.1:8500";

// Which coordinator, and what this side proves itself with.
struct AdminTarget {
  std::string coordinator = kDefaultCoordinator;
  CredentialFiles credentials = {};
};

// Adds --cluster-token-file, --tls-ca, --tls-cert and --tls-key.
void AddCredentialFlags(CLI::App& app, CredentialFiles* files);

// A channel to `address`, the value of `flag`; connects with the first call.
// Errors: UsageError for an address that is none or that may not be called;
// those of Credentials::Load.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectAdmin(
    const std::string& flag, const std::string& address,
    const CredentialFiles& credentials);

// Ends every call of the command line but those that are watched.
void SetAdminDeadline(grpc::ClientContext* context);
// What a call ended with, and of one that SetAdminDeadline ended what to do.
absl::Status AdminStatus(const grpc::Status& status);

class AdminClient {
 public:
  // Adds --coordinator and the flags of credentials.
  static void AddFlags(CLI::App& app, AdminTarget* target);

  // Connects with the first call. Errors: UsageError for an address that is
  // none or that may not be called; those of Credentials::Load.
  static absl::StatusOr<AdminClient> Create(const AdminTarget& target);

  // All block for a few seconds at most, WatchDrain as long as the drain goes.
  // Errors: UNAVAILABLE with what to do when the coordinator does not answer;
  // those of the service.
  absl::StatusOr<v1::ClusterHealth> GetHealth();
  absl::StatusOr<v1::PlacementReport> GetPlacement(
      const v1::GetPlacementRequest& request);
  absl::StatusOr<v1::Explanation> Explain(uint64_t request);

  // Calls `on_progress` for each message.
  absl::Status WatchDrain(
      const v1::DrainRequest& request,
      const std::function<void(const v1::DrainProgress&)>& on_progress);

 private:
  AdminClient(std::string coordinator,
              std::unique_ptr<v1::AdminService::Stub> stub)
      : coordinator_(std::move(coordinator)), stub_(std::move(stub)) {}
  absl::Status Describe(const grpc::Status& status) const;

  std::string coordinator_;
  std::unique_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace deltafin
