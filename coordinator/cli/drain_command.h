// coordinator/cli/drain_command.h
//
// `deltafin drain NODE`: takes a node out of service and says when it may be
// switched off.
#pragma once

#include <string>

#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/command.h"
#include "proto/admin.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class DrainCommand final : public Command {
 public:
  explicit DrainCommand(CLI::App& app);
  // Blocks until the node may be switched off. Errors: those of AdminClient.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  AdminTarget target_;
  std::string node_;
  double deadline_seconds_ = 0;
  bool undo_ = false;
};

std::string DrainLine(const v1::DrainProgress& progress);

}  // namespace deltafin
