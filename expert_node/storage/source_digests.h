// expert_node/storage/source_digests.h
//
// SHA-256 of files of a source that does not tell them.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "expert_node/storage/model_source.h"

namespace deltafin {

// Fills sha256 where it is empty, reading those files whole, up to `parallel`
// at once. `progress` is called by one thread at a time. Blocks. Errors:
// CANCELLED; those of source.Read.
absl::Status FillDigests(
    ModelSource& source, std::vector<SourceFile>& files, int parallel,
    const std::function<void(uint64_t done, uint64_t total)>& progress,
    const std::function<bool()>& cancelled);

}  // namespace deltafin
