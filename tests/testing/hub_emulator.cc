#include "tests/testing/hub_emulator.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/http_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin::testing {
namespace {

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

// Faults in the order in which they were asked for.
using Faults = std::deque<HubFault>;

std::optional<HubFault> TakeFault(Faults& faults) {
  if (faults.empty()) return std::nullopt;
  if (faults.front().after > 0) {
    --faults.front().after;
    return std::nullopt;
  }
  const HubFault fault = faults.front();
  if (fault.times > 0 && --faults.front().times == 0) faults.pop_front();
  return fault;
}

absl::StatusOr<std::shared_ptr<const TlsIdentity>> IdentityOf(
    const std::string& host, const CertificateAndKey& authority) {
  ASSIGN_OR_RETURN(const CertificateAndKey own,
                   IssueCertificate(authority, host, UnlimitedValidity()));
  return TlsIdentity::Make(host, own);
}

std::string QueryValue(const std::string& target, const std::string& name) {
  const size_t query = target.find('?');
  if (query == std::string::npos) return "";
  for (const char before : {'?', '&'}) {
    const size_t at = target.find(before + name + "=", query);
    if (at == std::string::npos) continue;
    const size_t first = at + name.size() + 2;
    return target.substr(first, target.find('&', first) - first);
  }
  return "";
}

}  // namespace

struct HubEmulator::Impl {
  bool AnswerHub(const ReceivedRequest& request, AnswerStream& answer);
  bool AnswerCdn(const ReceivedRequest& request, AnswerStream& answer);
  bool AnswerTree(const ReceivedRequest& request, AnswerStream& answer);
  bool AnswerResolve(const ReceivedRequest& request, AnswerStream& answer);
  bool Send(const ReceivedRequest& request, const EmulatedFile& file,
            const std::optional<HubFault>& fault, AnswerStream& answer);
  void Record(const ReceivedRequest& request, bool to_cdn);
  std::string CountsJson() const;
  const EmulatedFile* Find(const std::string& name) const;
  std::string Identity(const EmulatedFile& file);
  std::string Etag(const EmulatedFile& file) const;
  std::string SignedUrl(const EmulatedFile& file);
  std::string Signature(const std::string& name,
                        const std::string& expires) const;
  bool IsSigned(const ReceivedRequest& request, const std::string& name);
  absl::Status Listen();

  HubEmulatorOptions options;
  std::vector<EmulatedFile> files;
  mutable Mutex mutex;
  std::vector<HubRequest> requests ABSL_GUARDED_BY(mutex);
  Faults cdn_faults ABSL_GUARDED_BY(mutex);
  Faults hub_faults ABSL_GUARDED_BY(mutex);
  std::set<std::string> changed ABSL_GUARDED_BY(mutex);
  absl::Time signed_after ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  std::string authority;
  std::unique_ptr<LoopbackHttpServer> cdn;
  std::unique_ptr<LoopbackHttpServer> hub;
};

absl::Status HubEmulator::Impl::Listen() {
  using Tls = HubEmulatorOptions::Tls;
  std::shared_ptr<const TlsIdentity> of_hub, of_cdn;
  if (options.tls != Tls::kNone) {
    ASSIGN_OR_RETURN(const CertificateAndKey made,
                     MakeAuthority(UnlimitedValidity()));
    authority = made.certificate;
    ASSIGN_OR_RETURN(of_hub, IdentityOf("localhost", made));
    ASSIGN_OR_RETURN(of_cdn, IdentityOf("cdn.localhost", made));
    if (options.tls == Tls::kBoth) options.cdn_address = options.hub_address;
  }
  ASSIGN_OR_RETURN(cdn, LoopbackHttpServer::Listen(
                            options.cdn_address, options.cdn_port,
                            options.tls == Tls::kBoth ? of_cdn : nullptr));
  ASSIGN_OR_RETURN(hub, LoopbackHttpServer::Listen(options.hub_address,
                                                   options.hub_port, of_hub));
  return absl::OkStatus();
}

void HubEmulator::Impl::Record(const ReceivedRequest& request, bool to_cdn) {
  MutexLock lock(mutex);
  requests.push_back({to_cdn, request.method, request.target,
                      request.field("range"),
                      request.fields.contains("authorization")});
}

std::string HubEmulator::Impl::CountsJson() const {
  int to_cdn = 0;
  int foreign = 0;
  size_t all = 0;
  {
    MutexLock lock(mutex);
    all = requests.size();
    for (const HubRequest& one : requests) {
      to_cdn += one.to_cdn;
      foreign += one.to_cdn && one.has_authorization;
    }
  }
  return fmt::format(
      "{{\"requests\": {}, \"cdn_requests\": {}, \"foreign_authorizations\": "
      "{}, \"most_cdn_connections\": {}, \"bytes_sent\": {}}}\n",
      all, to_cdn, foreign, cdn->most_connections(),
      hub->bytes_sent() + cdn->bytes_sent());
}

const EmulatedFile* HubEmulator::Impl::Find(const std::string& name) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](auto& file) {
    return file.name == name;
  });
  return found == files.end() ? nullptr : &*found;
}

std::string HubEmulator::Impl::Etag(const EmulatedFile& file) const {
  if (!options.tells_validators) return "";
  return fmt::format("{}\"{}{}\"", options.etag_suffix.empty() ? "" : "W/",
                     file.oid, options.etag_suffix);
}

// What the Hub says of a file beside where it is.
std::string HubEmulator::Impl::Identity(const EmulatedFile& file) {
  if (!options.tells_validators) return "";
  EmulatedFile told = file;
  {
    MutexLock lock(mutex);
    if (changed.contains(file.name)) {
      told.oid = std::string(file.oid.size(), 'f');
    }
  }
  return fmt::format(
      "X-Repo-Commit: {}\r\nX-Linked-Size: {}\r\nX-Linked-Etag: {}\r\n",
      kCommit, told.bytes, Etag(told));
}

std::string HubEmulator::Impl::Signature(const std::string& name,
                                         const std::string& expires) const {
  return fmt::format(
      "{:x}", std::hash<std::string>()(name + "?" + expires + cdn->url()));
}

std::string HubEmulator::Impl::SignedUrl(const EmulatedFile& file) {
  const std::string expires =
      std::to_string(absl::ToUnixMicros(absl::Now() + options.url_lifetime));
  return fmt::format("{}/signed/{}?Expires={}&Signature={}", cdn->url(),
                     file.name, expires, Signature(file.name, expires));
}

bool HubEmulator::Impl::IsSigned(const ReceivedRequest& request,
                                 const std::string& name) {
  const std::string expires = QueryValue(request.target, "Expires");
  const auto micros = ParseDecimal(expires);
  if (!micros ||
      QueryValue(request.target, "Signature") != Signature(name, expires)) {
    return false;
  }
  const absl::Time end = absl::FromUnixMicros(static_cast<int64_t>(*micros));
  MutexLock lock(mutex);
  return end > absl::Now() && end - options.url_lifetime > signed_after;
}

bool HubEmulator::Impl::AnswerTree(const ReceivedRequest& request,
                                   AnswerStream& answer) {
  const size_t first =
      ParseDecimal(QueryValue(request.target, "cursor")).value_or(0);
  std::string link;
  if (first + options.files_per_page < files.size()) {
    link =
        fmt::format("Link: <{}{}?recursive=true&cursor={}>; rel=\"next\"\r\n",
                    hub->url(), request.path(), first + options.files_per_page);
  }
  return SendText(200, link, TreeJson(files, first, options.files_per_page),
                  answer);
}

bool HubEmulator::Impl::AnswerResolve(const ReceivedRequest& request,
                                      AnswerStream& answer) {
  const std::string prefix =
      fmt::format("/{}/resolve/{}/", options.repository, kCommit);
  const EmulatedFile* const file =
      request.path().starts_with(prefix)
          ? Find(request.path().substr(prefix.size()))
          : nullptr;
  if (file == nullptr) {
    return SendText(404, "X-Error-Code: EntryNotFound\r\n", "", answer);
  }
  std::string fields = Identity(*file);
  if (file->lfs) {
    fields += "Location: " + SignedUrl(*file) + "\r\n";
    return SendText(302, fields, "", answer);
  }
  if (request.method == "HEAD") {
    if (options.tells_validators) fields += "ETag: " + Etag(*file) + "\r\n";
    return answer.Write(
        fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: {}\r\n\r\n", fields,
                    file->bytes));
  }
  // The Hub itself knows no ranges.
  ReceivedRequest whole = request;
  whole.fields.erase("range");
  return Send(whole, *file, std::nullopt, answer);
}

bool HubEmulator::Impl::AnswerHub(const ReceivedRequest& request,
                                  AnswerStream& answer) {
  if (request.path() == "/emulator/counts") {
    return SendText(200, "", CountsJson(), answer);
  }
  Record(request, /*to_cdn=*/false);
  std::optional<HubFault> fault;
  {
    MutexLock lock(mutex);
    fault = TakeFault(hub_faults);
  }
  if (fault) {
    FileAnswer nothing;  // only faults without a file's bytes make sense
    nothing.redirect_target = hub->url() + request.target;
    return SendFile(nothing, fault, answer);
  }
  if (!options.token.empty() &&
      request.field("authorization") != "Bearer " + options.token) {
    return SendText(401, "X-Error-Code: GatedRepo\r\n",
                    request.method == "HEAD" ? "" : "Access is restricted",
                    answer);
  }
  const std::string api = "/api/models/" + options.repository;
  const std::string path = request.path();
  if (path == api + "/revision/" + options.revision ||
      path == api + "/revision/" + kCommit) {
    return SendText(200, "", fmt::format("{{\"sha\": \"{}\"}}", kCommit),
                    answer);
  }
  if (path == api + "/tree/" + kCommit) return AnswerTree(request, answer);
  return AnswerResolve(request, answer);
}

bool HubEmulator::Impl::AnswerCdn(const ReceivedRequest& request,
                                  AnswerStream& answer) {
  Record(request, /*to_cdn=*/true);
  std::optional<HubFault> fault;
  {
    MutexLock lock(mutex);
    fault = TakeFault(cdn_faults);
  }
  const std::string path = request.path();
  const std::string name =
      path.starts_with("/signed/") ? path.substr(8) : std::string();
  const EmulatedFile* const file = Find(name);
  if (file == nullptr || !IsSigned(request, name)) {
    return SendText(403, "", "<Error><Code>RequestExpired</Code></Error>",
                    answer);
  }
  return Send(request, *file, fault, answer);
}

bool HubEmulator::Impl::Send(const ReceivedRequest& request,
                             const EmulatedFile& file,
                             const std::optional<HubFault>& fault,
                             AnswerStream& answer) {
  FileAnswer what;
  what.file = &file;
  what.last = file.bytes - 1;
  what.etag = Etag(file);
  what.bytes_per_second = options.bytes_per_second;
  what.redirect_target = fault && fault->kind == FaultKind::kRedirectForever
                             ? cdn->url() + request.target
                             : hub->url() + request.target;
  const std::string range = request.field("range");
  if (range.starts_with("bytes=")) {
    const size_t dash = range.find('-');
    what.ranged = true;
    what.first = ParseDecimal(range.substr(6, dash - 6)).value_or(0);
    what.last = std::min(
        what.last, ParseDecimal(range.substr(dash + 1)).value_or(what.last));
  }
  return SendFile(what, fault, answer);
}

HubEmulator::HubEmulator() : impl_(std::make_unique<Impl>()) {}

HubEmulator::~HubEmulator() {
  if (impl_->hub) impl_->hub->Stop();
  if (impl_->cdn) impl_->cdn->Stop();
}

absl::StatusOr<std::unique_ptr<HubEmulator>> HubEmulator::Start(
    HubEmulatorOptions options) {
  std::unique_ptr<HubEmulator> emulator(new HubEmulator);
  Impl& impl = *emulator->impl_;
  ASSIGN_OR_RETURN(
      impl.files, ListEmulatedFiles(options.directory, options.lfs_from_bytes));
  impl.options = std::move(options);
  RETURN_IF_ERROR(impl.Listen());
  impl.cdn->Serve(
      [&impl](const ReceivedRequest& request, AnswerStream& answer) {
        return impl.AnswerCdn(request, answer);
      });
  impl.hub->Serve(
      [&impl](const ReceivedRequest& request, AnswerStream& answer) {
        return impl.AnswerHub(request, answer);
      });
  return emulator;
}

std::string HubEmulator::endpoint() const { return impl_->hub->url(); }
std::string HubEmulator::commit() const { return kCommit; }
const std::string& HubEmulator::authority() const { return impl_->authority; }

void HubEmulator::Inject(const HubFault& fault) {
  MutexLock lock(impl_->mutex);
  impl_->cdn_faults.push_back(fault);
}

void HubEmulator::InjectAtHub(const HubFault& fault) {
  MutexLock lock(impl_->mutex);
  impl_->hub_faults.push_back(fault);
}

void HubEmulator::ChangeFile(const std::string& name) {
  MutexLock lock(impl_->mutex);
  impl_->changed.insert(name);
}

void HubEmulator::ExpireUrls() {
  MutexLock lock(impl_->mutex);
  impl_->signed_after = absl::Now();
}

std::vector<HubRequest> HubEmulator::requests() const {
  MutexLock lock(impl_->mutex);
  return impl_->requests;
}

int HubEmulator::num_cdn_requests() const {
  const auto all = requests();
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [](const auto& one) { return one.to_cdn; }));
}

int HubEmulator::num_foreign_authorizations() const {
  const auto all = requests();
  return static_cast<int>(std::count_if(
      all.begin(), all.end(),
      [](const auto& one) { return one.to_cdn && one.has_authorization; }));
}

std::string HubEmulator::CountsJson() const { return impl_->CountsJson(); }

int HubEmulator::most_cdn_connections() const {
  return impl_->cdn->most_connections();
}

}  // namespace deltafin::testing
