// coordinator/cli/hub_access.h
//
// The environment's way to Hugging Face: HF_ENDPOINT, HF_TOKEN, HF_HOME.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "expert_node/storage/hub_environment.h"

namespace deltafin {

// Errors: those of ReadHubAccess.
absl::StatusOr<HubAccess> HubAccessOfEnvironment();

// The same where the model is an installed one; nothing is read otherwise.
absl::StatusOr<HubAccess> HubAccessFor(const std::string& model_dir);

}  // namespace deltafin
