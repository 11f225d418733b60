#include "coordinator/cli/certs_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "common/net/certificate.h"
#include "common/net/cluster_token.h"
#include "common/net/exit_code.h"
#include "common/net/member_rights.h"
#include "common/net/secret_file.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxPemBytes = uint64_t{1} << 20;
constexpr int kMaxDays = 36500;
constexpr char kAuthorityName[] = "ca";
// Certificates are valid from so long ago: machines whose clocks are late by
// less accept them at once.
constexpr absl::Duration kClockSkew = absl::Hours(24);

constexpr char kCertsFooter[] = R"(
One secret for the whole cluster, the simple way:
  deltafin certs token cluster.token
  (copy the file to every machine, then give each program
  --cluster-token-file cluster.token)

Or a certificate for each machine:
  deltafin certs init authority
  deltafin certs issue authority box-1
  deltafin certs issue authority desk --administrator
  (copy authority/ca.crt, box-1.crt and box-1.key to box-1, then give
  --tls-ca ca.crt --tls-cert box-1.crt --tls-key box-1.key; only desk may
  drain nodes and change what they keep)

docs/security.md tells what each protects, and how to change them.)";

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

Validity FromNow(int days) {
  const absl::Time now = absl::Now();
  return {now - kClockSkew, now + absl::Hours(24) * days};
}

const char* NameOfRights(const CertificateFacts& facts) {
  if (facts.is_authority) return "signs others";
  return RightsOf(facts) == MemberRights::kAdministrator ? "administrator"
                                                         : "node";
}

struct PairFiles {
  PairFiles(const std::string& dir, const std::string& name)
      : certificate(dir + "/" + name + ".crt"),
        key(dir + "/" + name + ".key") {}
  std::string certificate;
  std::string key;
};

// Both files or none.
absl::Status WritePair(const PairFiles& files, const CertificateAndKey& pair) {
  RETURN_IF_ERROR(WriteNewFile(files.key, pair.key, kSecretMode));
  const absl::Status status =
      WriteNewFile(files.certificate, pair.certificate, kPublicMode);
  if (!status.ok()) unlink(files.key.c_str());
  return status;
}

absl::StatusOr<CertificateAndKey> ReadAuthority(const std::string& dir) {
  const PairFiles files(dir, kAuthorityName);
  CertificateAndKey authority;
  absl::StatusOr<std::string> certificate =
      ReadFile(files.certificate, kMaxPemBytes);
  if (!certificate.ok()) {
    return AddContext(certificate.status(),
                      "no authority; `deltafin certs init` makes one");
  }
  authority.certificate = *std::move(certificate);
  ASSIGN_OR_RETURN(authority.key, ReadSecretFile(files.key, kMaxPemBytes));
  return authority;
}

// What an authority signs ends with itself.
absl::StatusOr<Validity> WithinAuthority(Validity validity,
                                         const std::string& authority) {
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(authority));
  validity.not_before =
      std::max(validity.not_before, facts.validity.not_before);
  validity.not_after = std::min(validity.not_after, facts.validity.not_after);
  if (validity.not_after > absl::Now()) return validity;
  return absl::InvalidArgumentError(
      fmt::format("the authority expired on {}: make a new one with `deltafin "
                  "certs init` in another folder",
                  DateOf(facts.validity.not_after)));
}

}  // namespace

CertsCommand::CertsCommand(CLI::App& app) {
  app.footer(kCertsFooter);
  app.require_subcommand(1);
  token_ = app.add_subcommand("token", "Make a file with a cluster's token");
  token_->add_option("file", path_, "The new file")->required();
  init_ = app.add_subcommand("init", "Make an authority for certificates");
  init_->add_option("dir", path_, "Its folder, made if need be")->required();
  init_->add_option("--days", authority_days_, "Until it expires")
      ->check(CLI::Range(1, kMaxDays))
      ->capture_default_str();
  issue_ = app.add_subcommand("issue", "Make a machine's certificate and key");
  issue_->add_option("dir", path_, "The authority's folder")->required();
  issue_->add_option("name", name_, "The machine's name")->required();
  issue_->add_option("--days", days_, "Until it expires")
      ->check(CLI::Range(1, kMaxDays))
      ->capture_default_str();
  issue_->add_flag("--administrator", is_administrator_,
                   "It may also drain nodes and change what they keep");
  show_ = app.add_subcommand("show", "Tell what is in a certificate");
  show_->add_option("file", path_, "A .crt file")->required();
}

absl::Status CertsCommand::Run(TerminationSignal& /*signals*/) {
  if (token_->parsed()) return MakeToken();
  if (init_->parsed()) return MakeAuthorityFiles();
  if (issue_->parsed()) return IssueFiles();
  return Show();
}

absl::Status CertsCommand::MakeToken() const {
  RETURN_IF_ERROR(MakeClusterTokenFile(path_));
  std::printf(
      "made %s: copy it to every machine of the cluster, readable by its owner "
      "alone, and give each program --cluster-token-file\n",
      path_.c_str());
  return absl::OkStatus();
}

absl::Status CertsCommand::MakeAuthorityFiles() const {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) return ErrnoStatus(error.value(), "create", path_);
  const Validity validity = FromNow(authority_days_);
  ASSIGN_OR_RETURN(const CertificateAndKey authority, MakeAuthority(validity));
  const PairFiles files(path_, kAuthorityName);
  RETURN_IF_ERROR(WritePair(files, authority));
  std::printf(
      "made %s, which every machine needs, and %s, which stays here; they "
      "expire on %s\n",
      files.certificate.c_str(), files.key.c_str(),
      DateOf(validity.not_after).c_str());
  return absl::OkStatus();
}

absl::Status CertsCommand::IssueFiles() const {
  if (name_ == kAuthorityName) {
    return UsageError("'ca' is the authority's name; choose another one");
  }
  ASSIGN_OR_RETURN(const CertificateAndKey authority, ReadAuthority(path_));
  ASSIGN_OR_RETURN(const Validity validity,
                   WithinAuthority(FromNow(days_), authority.certificate));
  ASSIGN_OR_RETURN(
      const CertificateAndKey own,
      IssueCertificateWith(is_administrator_ ? MemberRights::kAdministrator
                                             : MemberRights::kNode,
                           authority, name_, validity));
  const PairFiles files(path_, name_);
  RETURN_IF_ERROR(WritePair(files, own));
  std::printf(
      "made %s and %s: copy both and %s to %s; the certificate expires on %s\n",
      files.certificate.c_str(), files.key.c_str(),
      PairFiles(path_, kAuthorityName).certificate.c_str(), name_.c_str(),
      DateOf(validity.not_after).c_str());
  return absl::OkStatus();
}

absl::Status CertsCommand::Show() const {
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(path_, kMaxPemBytes));
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(pem);
  if (!facts.ok()) return AddContext(facts.status(), path_);
  const Validity& validity = facts->validity;
  const bool is_valid =
      validity.not_before <= absl::Now() && absl::Now() <= validity.not_after;
  std::printf(
      "%s of %s\n  signed by    %s\n  names        %s\n  rights       %s\n"
      "  valid from   %s\n  valid until  %s%s\n  key SHA-256  %s\n",
      facts->is_authority ? "authority" : "certificate", facts->subject.c_str(),
      facts->issuer.c_str(), absl::StrJoin(facts->names, ", ").c_str(),
      NameOfRights(*facts), DateOf(validity.not_before).c_str(),
      DateOf(validity.not_after).c_str(), is_valid ? "" : " (not valid now)",
      facts->key_sha256.c_str());
  return absl::OkStatus();
}

}  // namespace deltafin
