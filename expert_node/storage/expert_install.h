// expert_node/storage/expert_install.h
//
// Brings all experts that a record store lacks from another store, several at
// once. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "expert_node/storage/expert_store.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

// How far an installation is: what is being done, and how much of all is.
using InstallProgress = std::function<void(
    std::string_view step, uint64_t done_bytes, uint64_t total_bytes)>;

struct ExpertInstallOptions {
  // Experts fetched at once; memory is about three records for each.
  int parallel = 8;
  InstallProgress progress;         // called by one thread at a time
  std::function<bool()> cancelled;  // asked by any thread; may be empty
};

// Experts are kept in their order, so that the index files come out the same
// however often it was interrupted. Blocks. Errors: CANCELLED; those of the
// stores: what was kept stays.
absl::Status InstallMissingExperts(ExpertStore& from, RecordStore& records,
                                   const ExpertInstallOptions& options);

}  // namespace deltafin
