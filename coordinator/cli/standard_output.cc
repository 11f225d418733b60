#include "coordinator/cli/standard_output.h"

#include <cstdio>

namespace deltafin {

bool WriteOutput(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return FlushOutput().ok();
}

absl::Status FlushOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      "standard output could not be written; is its disk full or closed?");
}

}  // namespace deltafin
