// expert_node/device/device_choice.h
//
// Where a node computes experts, as people write it. A pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

// The cards of "cuda" (card 0), "cuda:1" or "cuda:0,2"; none for "cpu" and "".
// Errors: INVALID_ARGUMENT with the text and what is accepted.
absl::StatusOr<std::vector<int>> ParseDevice(std::string_view text);

}  // namespace deltafin
