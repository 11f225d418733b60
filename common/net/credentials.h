// common/net/credentials.h
//
// Who may talk to whom: plaintext between programs of one machine, TLS with a
// certificate on both sides for anything else. docs/security.md has the model.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/certificate.h"
#include "common/net/listen_address.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ServerCredentials;
}  // namespace grpc

namespace deltafin {

// Where a program finds what it proves itself with: a token, or the three TLS
// files, or nothing.
struct CredentialFiles {
  std::string cluster_token_file;
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;

  bool any() const;
  // Errors: INVALID_ARGUMENT when both ways are named, or one of the TLS files
  // is missing.
  absl::Status Check() const;
};

// Those that a program's configuration names.
template <typename Config>
CredentialFiles CredentialFilesOf(const Config& config) {
  return {config.cluster_token_file(), config.tls_ca(), config.tls_cert(),
          config.tls_key()};
}

// Copies share the same keys. Thread-safe.
class Credentials {
 public:
  // Plaintext.
  Credentials() = default;

  // Reads the files; none named: plaintext. With a token the process makes an
  // administrator's certificate for itself, signed by the token's authority:
  // whoever can do that knows the token, which itself is never sent. Blocks on
  // disk. Errors: those of Check, ReadClusterTokens, ReadSecretFile and
  // CheckCertificate, with the path.
  static absl::StatusOr<Credentials> Load(const CredentialFiles& files,
                                          absl::Time now);

  bool is_plaintext() const { return identity_ == nullptr; }

  // For a server. With TLS it refuses peers without a certificate of a known
  // authority, unread, and calls beyond a certificate's rights (peer_rights.h).
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

  // A channel to HOST:PORT, connected when first used; with TLS to a server
  // that shows such a certificate. Takes `arguments` and adds what TLS needs.
  std::shared_ptr<grpc::Channel> Connect(
      const std::string& address,
      const grpc::ChannelArguments& arguments) const;

 private:
  struct Identity {
    CertificateAndKey own;
    std::string authorities;
  };
  std::shared_ptr<const Identity> identity_;
};

// OK when the connection may leave this machine with these credentials: they
// encrypt, or every address of the host is a loopback one (then, and only then,
// the host is resolved). `use` says what for: "listen on", "connect to".
// Errors: INVALID_ARGUMENT with what to do.
absl::Status RequireProtected(std::string_view use,
                              const ListenAddress& address, bool is_plaintext);

// What a call that could not connect says of the handshake, with what to do;
// gRPC's words tell it only to those who know TLS. UNAUTHENTICATED where the
// peer is surely not one of ours; any other status, and any that tells nothing
// of a handshake, comes back as it is.
absl::Status ExplainConnection(const absl::Status& status);

}  // namespace deltafin
