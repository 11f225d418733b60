// expert_node/storage/record_check.h
//
// Mending the records of an installed model: what cannot be used is dropped, so
// that it counts as missing.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/expert_install.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

// Removes index files without a readable header: nothing can be told of their
// records. Other folders' errors are left to RecordStore::Open.
absl::Status RemoveUnreadableIndexes(const std::string& folder,
                                     const ModelSpec& spec);

// Reads every slice that is held; the store drops damaged ones. Errors:
// CANCELLED; those of RecordStore::Read but DATA_LOSS.
absl::Status DropDamagedSlices(RecordStore& records,
                               const ExpertInstallOptions& options);

}  // namespace deltafin
