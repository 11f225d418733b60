// expert_node/storage/repository_source.h
//
// Experts of a repository for a node that was told of the model by its
// coordinator.
#pragma once

#include <string>

#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/source_store.h"

namespace deltafin {

// Reaches the repository, and finds experts by the index and headers in
// `model_folder` (KnownModel). Errors of the call: FAILED_PRECONDITION when the
// repository's files are not those of the folder's manifest; those of
// HubSource.
ExpertSourceOpener OpenerOfRepository(const std::string& model_folder,
                                      const ModelRevision& repository,
                                      const HubAccess& access);

}  // namespace deltafin
