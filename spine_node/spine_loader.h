// spine_node/spine_loader.h
//
// From a model directory to a spine that runs on CPU kernels. (The libtorch
// spines are opened by torch_loader.)
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "spine_node/options.h"
#include "spine_node/partial_spine.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

// Loads the weights and builds a CpuSpine. Blocks on disk until every weight is
// in memory; an int8 spine that does not exist yet is made on the way, one
// layer after the other, and what was finished survives an interruption.
// Errors: NOT_FOUND or INVALID_ARGUMENT naming file, tensor or config field;
// RESOURCE_EXHAUSTED when memory or disk does not suffice, with the numbers;
// DATA_LOSS on a read error.
absl::StatusOr<std::unique_ptr<PartialSpine>> LoadCpuSpine(
    const SpineOptions& options);

// The weights alone, for tests and for CpuSpine.
absl::StatusOr<SpineWeights> LoadSpineWeights(const SpineOptions& options);

}  // namespace deltafin
