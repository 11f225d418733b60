#include "coordinator/cli/hub_access.h"

#include <cstdlib>

#include "common/base/model_directory.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<HubAccess> HubAccessOfEnvironment() {
  return ReadHubAccess([](const char* name) { return std::getenv(name); });
}

absl::StatusOr<HubAccess> HubAccessFor(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(model_dir));
  if (layout == ModelLayout::kReleased) return HubAccess{};
  return HubAccessOfEnvironment();
}

}  // namespace deltafin
