#include "coordinator/cli/http_flags.h"

#include <CLI/CLI.hpp>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/net/exit_code.h"

namespace deltafin {
namespace {

constexpr char kHttpGroup[] = "HTTP API";

std::vector<std::string> Merge(
    const std::vector<std::string>& given,
    const google::protobuf::RepeatedPtrField<std::string>& configured) {
  if (!given.empty()) return given;
  return {configured.begin(), configured.end()};
}

// "scheme://host[:port]", as browsers send it, or "*".
bool IsOrigin(std::string_view text) {
  if (text == "*") return true;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() &&
         host.find_first_of("/ ?#@,") == std::string_view::npos;
}

}  // namespace

void HttpFlags::AddTo(CLI::App& app) {
  const auto add = [&app](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)->group(kHttpGroup);
  };
  add("--http", listen_,
      "HOST:PORT of the OpenAI-compatible API, beyond loopback with TLS and "
      "keys only; port 0 takes a free one (default: none)");
  add("--http-tls-cert", tls_cert_,
      "Certificate of the HTTP API, PEM, with its chain");
  add("--http-tls-key", tls_key_, "Its key");
  add("--api-key-file", api_key_file_,
      "File with the keys that clients must show, one a line");
  add("--cors-origin", cors_origins_,
      "Origin whose pages may use the API, such as https://chat.example; "
      "repeat for more, * for all");
  add("--http-host", hosts_,
      "Name of this server that clients use; repeat for more");
}

absl::StatusOr<HttpApiOptions> HttpFlags::Options(
    const v1::CoordinatorConfig& config) const {
  HttpApiOptions options;
  options.listen = listen_.value_or(config.http());
  options.tls.certificate = tls_cert_.value_or(config.http_tls_cert());
  options.tls.key = tls_key_.value_or(config.http_tls_key());
  options.cors_origins = Merge(cors_origins_, config.cors_origin());
  options.allowed_hosts = Merge(hosts_, config.http_host());
  const std::string keys = api_key_file_.value_or(config.api_key_file());
  const bool has_more = options.tls.any() || !keys.empty() ||
                        !options.cors_origins.empty() ||
                        !options.allowed_hosts.empty();
  if (options.listen.empty() && has_more) {
    return UsageError(
        "TLS, keys, origins and hosts of the HTTP API need "
        "--http");
  }
  if (options.tls.certificate.empty() != options.tls.key.empty()) {
    return UsageError("--http-tls-cert and --http-tls-key go together");
  }
  for (const std::string& origin : options.cors_origins) {
    if (!IsOrigin(origin)) {
      return UsageError("--cors-origin: '" + origin +
                        "': expected scheme://host[:port], or *");
    }
  }
  if (!keys.empty()) {
    ASSIGN_OR_RETURN(options.keys, ApiKeys::Load(keys));
  }
  return options;
}

}  // namespace deltafin
