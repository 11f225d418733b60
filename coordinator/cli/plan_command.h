// coordinator/cli/plan_command.h
//
// `deltafin plan`: what a cluster would reach, before anything is bought.
#pragma once

#include <string>

#include "coordinator/cli/command.h"
#include "coordinator/cluster_plan.h"
#include "proto/config.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class PlanCommand final : public Command {
 public:
  explicit PlanCommand(CLI::App& app);
  // Errors: INVALID_ARGUMENT naming the machine and field; those of
  // ReadConfigFile, ModelSpec::Load, PredictPlan.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  std::string nodes_file_;
  std::string model_dir_;
  bool json_ = false;
};

// The checked form of the file. Errors: INVALID_ARGUMENT, a line for each bad
// field.
absl::StatusOr<ClusterPlan> ParsePlannedCluster(
    const v1::PlannedCluster& cluster);

// Kimi K3 by its published sizes (docs/model.md section 6.3): no files are
// needed. `context`: tokens of the sequence.
TokenDemand FullK3Demand(SpinePrecision precision, int64_t context_tokens);

std::string PlanTable(const TokenDemand& demand,
                      const PlanPrediction& prediction,
                      const std::vector<Purchase>& purchases);
std::string PlanJson(const TokenDemand& demand,
                     const PlanPrediction& prediction,
                     const std::vector<Purchase>& purchases);

}  // namespace deltafin
