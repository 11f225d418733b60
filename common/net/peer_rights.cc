#include "common/net/peer_rights.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <algorithm>
#include <array>
#include <string>

#include "common/base/log.h"
#include "common/net/grpc_status.h"
#include "common/net/member_rights.h"

namespace deltafin {
namespace {

constexpr std::array<std::string_view, 2> kServicesForAdministrators = {
    "/deltafin.v1.AdminService/", "/deltafin.v1.StorageService/"};
// Of these services, what only tells.
constexpr std::array<std::string_view, 4> kMethodsForAll = {
    "/deltafin.v1.AdminService/GetHealth",
    "/deltafin.v1.AdminService/GetPlacement",
    "/deltafin.v1.AdminService/Explain",
    "/deltafin.v1.StorageService/GetStorage"};

std::string_view View(grpc::string_ref text) {
  return {text.data(), text.size()};
}

bool IsAdministrator(const grpc::AuthContext& peer) {
  const auto names = peer.FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME);
  return std::ranges::any_of(names, [](grpc::string_ref name) {
    return View(name) == kAdministratorName;
  });
}

std::string NameOf(const grpc::AuthContext& peer) {
  const auto names = peer.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "" : std::string(View(names.front()));
}

class RightsCheck final : public grpc::AuthMetadataProcessor {
 public:
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* peer,
                       OutputMetadata* /*consumed*/,
                       OutputMetadata* /*response*/) override {
    const auto path = metadata.find(":path");
    // A call without a method is none that we know to be harmless.
    const std::string_view method =
        path == metadata.end() ? "" : View(path->second);
    if (!method.empty() && !IsForAdministrators(method)) {
      return grpc::Status::OK;
    }
    if (IsAdministrator(*peer)) return grpc::Status::OK;
    const absl::Status refused = RequireAdministrator(method, NameOf(*peer));
    spdlog::debug("{}", refused.ToString());
    return ToGrpc(refused);
  }
};

}  // namespace

bool IsForAdministrators(std::string_view method) {
  const bool is_administrative = std::ranges::any_of(
      kServicesForAdministrators, [method](std::string_view service) {
        return method.starts_with(service);
      });
  return is_administrative &&
         std::ranges::find(kMethodsForAll, method) == kMethodsForAll.end();
}

absl::Status RequireAdministrator(std::string_view method,
                                  std::string_view peer) {
  return absl::PermissionDeniedError(fmt::format(
      "{} is for administrators, and the certificate of '{}' gives the rights "
      "of a node: make one with `deltafin certs issue AUTHORITY NAME "
      "--administrator` and name its files with --tls-cert and --tls-key",
      method, peer));
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeRightsCheck() {
  return std::make_shared<RightsCheck>();
}

}  // namespace deltafin
