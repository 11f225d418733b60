#include "coordinator/cli/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "common/net/grpc_status.h"
#include "common/net/listen_address.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectAdmin(
    const std::string& flag, const std::string& address,
    const CredentialFiles& credentials) {
  const absl::StatusOr<ListenAddress> parsed = ListenAddress::Parse(address);
  absl::Status usable = parsed.status();
  if (parsed.ok()) {
    usable = RequireProtected("connect to", *parsed, !credentials.any());
  }
  if (usable.ok()) usable = credentials.Check();
  if (!usable.ok()) {
    return UsageError(flag + ": " + std::string(usable.message()));
  }
  ASSIGN_OR_RETURN(const Credentials loaded,
                   Credentials::Load(credentials, absl::Now()));
  return loaded.Connect(address, grpc::ChannelArguments());
}

absl::Status AdminStatus(const grpc::Status& status) {
  const absl::Status said = FromGrpc(status);
  // gRPC's own words for what SetAdminDeadline set.
  if (!absl::IsDeadlineExceeded(said) ||
      said.message() != "Deadline Exceeded") {
    return said;
  }
  return absl::DeadlineExceededError(fmt::format(
      "no answer within {}: the program there hangs, or its machine is very "
      "busy; try again, or look at its log",
      absl::FormatDuration(kCallTimeout)));
}

void SetAdminDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
}

void AdminClient::AddFlags(CLI::App& app, AdminTarget* target) {
  app.add_option("--coordinator", target->coordinator,
                 "HOST:PORT where `deltafin serve` listens")
      ->capture_default_str();
  AddCredentialFlags(app, &target->credentials);
}

void AddCredentialFlags(CLI::App& app, CredentialFiles* files) {
  app.add_option("--cluster-token-file", files->cluster_token_file,
                 "File with the cluster's token, where it has one");
  app.add_option("--tls-ca", files->tls_ca,
                 "Instead of a token: ca.crt of deltafin certs init");
  app.add_option("--tls-cert", files->tls_cert,
                 "This machine's certificate, of deltafin certs issue");
  app.add_option("--tls-key", files->tls_key, "Its key");
}

absl::StatusOr<AdminClient> AdminClient::Create(const AdminTarget& target) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::Channel> channel,
      ConnectAdmin("--coordinator", target.coordinator, target.credentials));
  return AdminClient(target.coordinator, v1::AdminService::NewStub(channel));
}

absl::StatusOr<v1::ClusterHealth> AdminClient::GetHealth() {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::ClusterHealth health;
  RETURN_IF_ERROR(Describe(stub_->GetHealth(&context, {}, &health)));
  return health;
}

absl::StatusOr<v1::PlacementReport> AdminClient::GetPlacement(
    const v1::GetPlacementRequest& request) {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::PlacementReport report;
  RETURN_IF_ERROR(Describe(stub_->GetPlacement(&context, request, &report)));
  return report;
}

absl::StatusOr<v1::Explanation> AdminClient::Explain(uint64_t request) {
  grpc::ClientContext context;
  SetAdminDeadline(&context);
  v1::ExplainRequest wanted;
  wanted.set_request(request);
  v1::Explanation explanation;
  RETURN_IF_ERROR(Describe(stub_->Explain(&context, wanted, &explanation)));
  return explanation;
}

absl::Status AdminClient::WatchDrain(
    const v1::DrainRequest& request,
    const std::function<void(const v1::DrainProgress&)>& on_progress) {
  grpc::ClientContext context;  // the server ends it at the drain's deadline
  const auto reader = stub_->Drain(&context, request);
  bool is_done = false;
  v1::DrainProgress progress;
  while (reader->Read(&progress)) {
    on_progress(progress);
    is_done = progress.done();
  }
  RETURN_IF_ERROR(Describe(reader->Finish()));
  if (is_done) return absl::OkStatus();
  return absl::InternalError(fmt::format(
      "coordinator {}: the drain ended without a result", coordinator_));
}

absl::Status AdminClient::Describe(const grpc::Status& status) const {
  const absl::Status raw = AdminStatus(status);
  const absl::Status explained = ExplainConnection(raw);
  if (explained != raw) return AddContext(explained, coordinator_);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(fmt::format(
          "no coordinator answers at {} ({}): start `deltafin serve` there, or "
          "say with --coordinator where it listens",
          coordinator_, status.error_message()));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return AddContext(raw, fmt::format("coordinator {}", coordinator_));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::FailedPreconditionError(fmt::format(
          "what answers at {} is no coordinator of this version: start the "
          "same version on both sides",
          coordinator_));
    default:
      return raw;
  }
}

}  // namespace deltafin
