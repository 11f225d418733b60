// coordinator/cli/placement_command.h
//
// `deltafin placement`: who is meant to have how much of the experts and who
// has it; and what would be copied if it were otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
  // does not have, a node that is none, or where no node would be left.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  void AddShow(CLI::App& app);
  void AddPlan(CLI::App& app);

  AdminTarget target_;
  CLI::App* plan_ = nullptr;
  std::optional<uint32_t> layer_;
  std::optional<uint32_t> expert_;
  std::vector<std::string> without_;
  uint32_t copies_ = 0;
  bool json_ = false;
};

std::string PlacementTable(const v1::PlacementReport& report);
// What each node would copy, and how long at least.
std::string PlanTable(const v1::PlacementReport& report);
// One object on one line.
std::string PlacementJson(const v1::PlacementReport& report);

// Of all nodes copying at once, each within its budget; 0: there is none.
double CopySeconds(const v1::PlacementReport& report);

}  // namespace deltafin
