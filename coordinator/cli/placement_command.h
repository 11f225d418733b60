// coordinator/cli/placement_command.h
//
// `deltafin placement show`: who is meant to have how much of the experts, and
// who has it.
#pragma once

#include <optional>
#include <string>

#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/command.h"
#include "proto/admin.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class PlacementCommand final : public Command {
 public:
  explicit PlacementCommand(CLI::App& app);
  // Errors: those of AdminClient; INVALID_ARGUMENT for an expert that the model
  // does not have.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  AdminTarget target_;
  std::optional<uint32_t> layer_;
  std::optional<uint32_t> expert_;
  bool json_ = false;
};

std::string PlacementTable(const v1::PlacementReport& report);
// One object on one line.
std::string PlacementJson(const v1::PlacementReport& report);

}  // namespace deltafin
