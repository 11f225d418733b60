#include "common/net/credentials.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <string_view>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/cluster_token.h"
#include "common/net/grpc_log.h"
#include "common/net/member_rights.h"
#include "common/net/peer_rights.h"
#include "common/net/secret_file.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxPemBytes = uint64_t{1} << 20;
// The name in a certificate that a process makes for itself.
constexpr char kProcessName[] = "token-holder";
constexpr absl::Duration kExpiresSoon = absl::Hours(24 * 30);

constexpr char kHowToProtect[] =
    "give --cluster-token-file FILE (`deltafin certs token FILE` makes one, "
    "copy it to every machine), or --tls-ca, --tls-cert and --tls-key";

void WarnOfExpiry(const std::string& path, std::string_view certificate,
                  absl::Time now) {
  const auto facts = ReadCertificate(certificate);
  if (!facts.ok() || facts->validity.not_after - now > kExpiresSoon) return;
  spdlog::warn(
      "{} expires on {}: make a new one with `deltafin certs issue` and start "
      "this program again",
      path,
      absl::FormatTime("%Y-%m-%d", facts->validity.not_after,
                       absl::UTCTimeZone()));
}

constexpr char kNotOurs[] =
    "there is no member of this cluster: its token is another one, or its "
    "certificate has expired or is of another authority; give both sides the "
    "same --cluster-token-file or --tls-ca (`deltafin certs show` tells a "
    "certificate's dates)";
constexpr char kNoTls[] =
    "the program there was started without credentials, this one with: start "
    "it with the same --cluster-token-file, or with the --tls flags";
constexpr char kHungUp[] =
    "it hung up before the first call: it accepts only members of its cluster; "
    "give this program its --cluster-token-file, or the --tls flags with a "
    "certificate that has not expired and is of its authority";

}  // namespace

bool CredentialFiles::any() const {
  return !cluster_token_file.empty() || !tls_ca.empty() || !tls_cert.empty() ||
         !tls_key.empty();
}

absl::Status CredentialFiles::Check() const {
  const bool any_tls = !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty();
  if (any_tls && !cluster_token_file.empty()) {
    return absl::InvalidArgumentError(
        "cluster_token_file and the tls files are two ways of the same: give "
        "one of them");
  }
  if (any_tls && (tls_ca.empty() || tls_cert.empty() || tls_key.empty())) {
    return absl::InvalidArgumentError(
        "tls_ca, tls_cert and tls_key belong together: give all three");
  }
  return absl::OkStatus();
}

absl::StatusOr<Credentials> Credentials::Load(const CredentialFiles& files,
                                              absl::Time now) {
  RETURN_IF_ERROR(files.Check());
  Credentials credentials;
  if (!files.any()) return credentials;
  auto identity = std::make_shared<Identity>();
  if (!files.cluster_token_file.empty()) {
    ASSIGN_OR_RETURN(const std::vector<ClusterToken> tokens,
                     ReadClusterTokens(files.cluster_token_file));
    for (const ClusterToken& token : tokens) {
      ASSIGN_OR_RETURN(const CertificateAndKey authority,
                       AuthorityOfSecret(token));
      identity->authorities += authority.certificate;
      if (!identity->own.key.empty()) continue;
      ASSIGN_OR_RETURN(
          identity->own,
          IssueCertificateWith(MemberRights::kAdministrator, authority,
                               kProcessName, UnlimitedValidity()));
    }
  } else {
    ASSIGN_OR_RETURN(identity->authorities,
                     ReadFile(files.tls_ca, kMaxPemBytes));
    ASSIGN_OR_RETURN(identity->own.certificate,
                     ReadFile(files.tls_cert, kMaxPemBytes));
    ASSIGN_OR_RETURN(identity->own.key,
                     ReadSecretFile(files.tls_key, kMaxPemBytes));
    RETURN_IF_ERROR(
        AddContext(CheckCertificate(identity->own, identity->authorities, now),
                   fmt::format("{} with {} and {}", files.tls_cert,
                               files.tls_key, files.tls_ca)));
    WarnOfExpiry(files.tls_cert, identity->own.certificate, now);
  }
  credentials.identity_ = std::move(identity);
  return credentials;
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForServer() const {
  if (is_plaintext()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity_->authorities;
  options.pem_key_cert_pairs.push_back(
      {identity_->own.key, identity_->own.certificate});
  auto credentials = grpc::SslServerCredentials(options);
  credentials->SetAuthMetadataProcessor(MakeRightsCheck());
  return credentials;
}

std::shared_ptr<grpc::Channel> Credentials::Connect(
    const std::string& address, const grpc::ChannelArguments& arguments) const {
  TakeGrpcLog();
  grpc::ChannelArguments own = arguments;
  own.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (is_plaintext()) {
    return grpc::CreateCustomChannel(address,
                                     grpc::InsecureChannelCredentials(), own);
  }
  own.SetSslTargetNameOverride(kClusterPeerName);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = identity_->authorities;
  options.pem_private_key = identity_->own.key;
  options.pem_cert_chain = identity_->own.certificate;
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), own);
}

absl::Status RequireProtected(std::string_view use,
                              const ListenAddress& address, bool is_plaintext) {
  if (!is_plaintext) return absl::OkStatus();
  const absl::StatusOr<bool> is_loopback = IsLoopback(address);
  if (!is_loopback.ok()) {
    return AddContext(is_loopback.status(),
                      fmt::format("cannot {} {}", use, address.ToString()));
  }
  if (*is_loopback) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "refused to {} {}: it is on the network that other machines reach, and "
      "nothing would check who is there; {}; or use 127.0.0.1, ::1 or "
      "localhost",
      use, address.ToString(), kHowToProtect));
}

absl::Status ExplainConnection(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  const std::string message(status.message());
  const auto says = [&message](std::string_view words) {
    return message.find(words) != std::string::npos;
  };
  if (says("certificate verify failed")) {
    return absl::UnauthenticatedError(
        fmt::format("{} ({})", kNotOurs, message));
  }
  if (says("wrong version number") || says("packet length too long")) {
    return absl::UnauthenticatedError(fmt::format("{} ({})", kNoTls, message));
  }
  if (says("failed to connect") &&
      (says("Socket closed") || says("reset by peer") || says(" alert "))) {
    return absl::UnavailableError(fmt::format("{} ({})", kHungUp, message));
  }
  return status;
}

}  // namespace deltafin
