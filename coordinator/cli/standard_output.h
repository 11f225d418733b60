// coordinator/cli/standard_output.h
//
// Results on standard output, whose reader may have gone away and whose disk
// may be full.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

// Writes the text and passes it on at once. False when this or an earlier write
// failed.
bool WriteOutput(std::string_view text);

// UNAVAILABLE when something that was printed may not have arrived.
absl::Status FlushOutput();

}  // namespace deltafin
