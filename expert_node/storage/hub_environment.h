// expert_node/storage/hub_environment.h
//
// How the machine's user reaches Hugging Face: the conventions of its own
// tools.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace deltafin {

struct HubAccess {
  std::string endpoint = "https://huggingface.co";
  std::string token;  // empty: none
  // PEM file of the authorities that are trusted; empty: those of the system.
  std::string ca_file;
};

// Value of an environment variable, or nullptr.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// HF_ENDPOINT, the authorities of CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or
// SSL_CERT_FILE, the first that is set, and the token of HF_TOKEN or else of
// the first file that exists: HF_TOKEN_PATH, HF_HOME/token,
// XDG_CACHE_HOME/huggingface/token, HOME/.cache/huggingface/token. Only main
// calls it with std::getenv. Errors: INVALID_ARGUMENT for an endpoint that is
// no http or https URL, for authorities that are no file, or a token that no
// header can carry (it is not quoted).
absl::StatusOr<HubAccess> ReadHubAccess(const EnvironmentLookup& lookup);

// A repository and a branch, tag or commit of it.
struct ModelRevision {
  std::string repository;  // "owner/name"
  std::string revision = "main";
};

// "OWNER/NAME" or "OWNER/NAME@REVISION". Errors: INVALID_ARGUMENT.
absl::StatusOr<ModelRevision> ParseModelRevision(std::string_view text);

}  // namespace deltafin
