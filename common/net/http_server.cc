#include "common/net/http_server.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/net/http_connection.h"
#include "common/net/http_stream.h"
#include "common/net/listen_address.h"
#include "common/net/secret_file.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxPemBytes = uint64_t{1} << 20;
constexpr absl::Duration kBetweenWarnings = absl::Seconds(30);
constexpr absl::Duration kLongestTimeout = absl::Hours(24);

struct CheckedOptions {
  ListenAddress address;
  bool is_public = false;
  std::string certificate;
  std::string key;
};

absl::Status CheckLimits(const HttpServerOptions& options) {
  if (options.num_threads < 1 || options.max_connections < 1 ||
      options.max_header_bytes == 0 || options.max_unread_bytes == 0) {
    return absl::InvalidArgumentError(
        "an HTTP server needs a thread, a connection, and room for headers and "
        "answers: none of its limits may be 0");
  }
  for (const absl::Duration timeout :
       {options.header_timeout, options.body_timeout, options.idle_timeout,
        options.write_timeout}) {
    if (timeout <= absl::ZeroDuration() || timeout > kLongestTimeout) {
      return absl::InvalidArgumentError(fmt::format(
          "a time-out of {} for HTTP, want more than 0 and at most {}",
          absl::FormatDuration(timeout),
          absl::FormatDuration(kLongestTimeout)));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireProtectedHttp(const HttpServerOptions& options) {
  if (options.tls.any() && options.is_authenticated) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "refused to listen on {}: it is on the network that other machines "
      "reach; give {}{}{}; or use 127.0.0.1, ::1 or localhost",
      options.listen,
      options.tls.any()
          ? ""
          : "a certificate and its key (--http-tls-cert, --http-tls-key)",
      options.tls.any() || options.is_authenticated ? "" : " and ",
      options.is_authenticated ? "" : "keys for clients (--api-key-file)"));
}

absl::StatusOr<CheckedOptions> Check(const HttpServerOptions& options) {
  RETURN_IF_ERROR(CheckLimits(options));
  CheckedOptions checked;
  ASSIGN_OR_RETURN(checked.address, ListenAddress::Parse(options.listen));
  ASSIGN_OR_RETURN(const bool is_loopback, IsLoopback(checked.address));
  checked.is_public = !is_loopback;
  if (checked.is_public) RETURN_IF_ERROR(RequireProtectedHttp(options));
  if (!options.tls.any()) return checked;
  if (options.tls.certificate.empty() || options.tls.key.empty()) {
    return absl::InvalidArgumentError(
        "a certificate and its key belong together: give both, "
        "--http-tls-cert and --http-tls-key");
  }
  ASSIGN_OR_RETURN(checked.certificate,
                   ReadFile(options.tls.certificate, kMaxPemBytes));
  ASSIGN_OR_RETURN(checked.key, ReadSecretFile(options.tls.key, kMaxPemBytes));
  RETURN_IF_ERROR(AddContext(
      CheckHttpCertificate(checked.certificate, checked.key),
      fmt::format("{} with {}", options.tls.certificate, options.tls.key)));
  return checked;
}

}  // namespace

absl::Status CheckHttpServerOptions(const HttpServerOptions& options) {
  return Check(options).status();
}

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, const CheckedOptions& checked,
       HttpHandler handler)
      : context_{options, std::move(handler),
                 HttpHostPolicy(checked.address.host, checked.is_public,
                                options.allowed_hosts),
                 HttpConnectionSet(options.max_connections)} {}

  absl::Status Start(const CheckedOptions& checked) {
    const HttpServerOptions& options = context_.options;
    auto listener =
        HttpListener::Listen({checked.address, checked.certificate, checked.key,
                              options.num_threads, options.write_timeout});
    RETURN_IF_ERROR(AddContext(listener.status(), "HTTP"));
    listener_ = *std::move(listener);
    listener_->Start(
        [this](std::shared_ptr<HttpStream> stream) {
          std::make_shared<HttpConnection>(std::move(stream), context_)
              ->Start();
        },
        [this] { MakeRoom(); });
    return absl::OkStatus();
  }

  void Shutdown(absl::Duration drain) {
    MutexLock lock(mutex_);
    if (is_shut_down_) return;
    is_shut_down_ = true;
    listener_->StopAccepting();
    context_.connections.AskAll(HttpConnectionWish::kFinish);
    if (!context_.connections.AwaitEmpty(absl::Now() + drain)) {
      context_.connections.AskAll(HttpConnectionWish::kAbort);
    }
    listener_->Join();
  }

  int port() const { return listener_->port(); }

 private:
  // For file descriptors. Called by one thread at a time.
  void MakeRoom() {
    context_.connections.CloseOneIdle();
    if (absl::Now() - last_warning_ < kBetweenWarnings) return;
    last_warning_ = absl::Now();
    spdlog::warn(
        "HTTP: no file descriptor for another connection; raise the limit of "
        "open files");
  }

  HttpConnectionContext context_;
  absl::Time last_warning_ = absl::InfinitePast();
  std::unique_ptr<HttpListener> listener_;
  Mutex mutex_;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

HttpServer::HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, HttpHandler handler) {
  ASSIGN_OR_RETURN(CheckedOptions checked, Check(options));
  auto impl = std::make_unique<Impl>(options, checked, std::move(handler));
  RETURN_IF_ERROR(impl->Start(checked));
  std::unique_ptr<HttpServer> self(new HttpServer());
  checked.address.port = impl->port();
  self->address_ = checked.address.ToString();
  self->is_tls_ = options.tls.any();
  self->impl_ = std::move(impl);
  return self;
}

HttpServer::~HttpServer() { impl_->Shutdown(absl::ZeroDuration()); }

void HttpServer::Shutdown(absl::Duration drain) { impl_->Shutdown(drain); }

}  // namespace deltafin
