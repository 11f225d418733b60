// coordinator/cli/http_flags.h
//
// The flags of the HTTP API; each overrides its field of CoordinatorConfig.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/http_api.h"
#include "proto/config.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class HttpFlags {
 public:
  // Both must outlive the parsing.
  void AddTo(CLI::App& app);

  // Flags and file merged, with the keys read. Blocks on disk. Errors: a usage
  // error for fields that need --http, half of a pair of TLS files, or an
  // origin that is none; those of ApiKeys::Load.
  absl::StatusOr<HttpApiOptions> Options(
      const v1::CoordinatorConfig& config) const;

 private:
  std::optional<std::string> listen_, tls_cert_, tls_key_, api_key_file_;
  std::vector<std::string> cors_origins_, hosts_;
};

}  // namespace deltafin
