// coordinator/cli/install_run.h
//
// What `setup` and `fetch-experts` share: flags of the source, a progress line,
// Ctrl-C that ends an installation well.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/net/termination_signal.h"
#include "expert_node/storage/install_origin.h"
#include "expert_node/storage/model_installer.h"

namespace deltafin {

struct InstallRunOptions {
  std::string dir;
  InstallOrigin origin;
  int parallel = 8;
  uint64_t reserve_bytes = 0;
  bool check_experts = false;
  bool compare_shards = true;
};

// Installs, saying on standard error what it needs and how far it is. Errors:
// those of ModelInstaller; after a signal one that ends the program as the
// signal would, and tells how to go on.
absl::Status RunInstall(const InstallRunOptions& options,
                        TerminationSignal& signals);

}  // namespace deltafin
