#include "coordinator/cli/info_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/base/status_macros.h"
#include "coordinator/cli/default_model.h"
#include "coordinator/cli/model_needs.h"

namespace deltafin {
namespace {

constexpr char kInfoFooter[] = R"(
Examples:
  deltafin info                      the small model that comes with deltafin
  deltafin info /models/Kimi-K3      does it fit into this machine?
  deltafin info /models/Kimi-K3 --context 131072 --json)";

}  // namespace

InfoCommand::InfoCommand(CLI::App& app) {
  app.footer(kInfoFooter);
  app.add_option("DIR", model_dir_, "Model directory (default: k3-nano)");
  app.add_option("--context", context_, "Tokens of the sequence to plan for")
      ->capture_default_str();
  app.add_flag("--json", json_, "Print one JSON object");
}

absl::Status InfoCommand::Run(TerminationSignal& /*signals*/) {
  if (model_dir_.empty()) {
    ASSIGN_OR_RETURN(model_dir_, DefaultModelDir());
  }
  ASSIGN_OR_RETURN(const ModelNeeds needs,
                   MeasureModelNeeds(model_dir_, context_));
  const std::string text =
      json_ ? ModelNeedsJson(needs) + '\n' : ModelNeedsTable(needs);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace deltafin
