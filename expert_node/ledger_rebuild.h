// expert_node/ledger_rebuild.h
//
// `deltafin-node --rebuild-ledger`: makes a node's ledger anew from what its
// index files say.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "expert_node/options.h"

namespace deltafin {

// For an installed model or a share the ledger beside its records, else that in
// `data_dir`. Heat and quota stay where they can be read. Prints what it
// found. Errors: those of ManifestOfDirectory, RecordStore::Open (UNAVAILABLE
// while a node runs) and ExpertIndex; INVALID_ARGUMENT where there is neither
// an installed model nor a data folder.
absl::Status RebuildLedger(const ExpertNodeOptions& options,
                           const std::string& data_dir);

}  // namespace deltafin
