// coordinator/cli/flag_words.h
//
// A line of flags as a shell would cut it into words. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

// Words are separated by spaces; single and double quotes and a backslash keep
// the next characters as they are. Errors: INVALID_ARGUMENT for an open quote.
absl::StatusOr<std::vector<std::string>> SplitFlagWords(std::string_view line);

}  // namespace deltafin
