#include "coordinator/cli/placement_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/standard_output.h"
#include "coordinator/cli/text_table.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFooter[] = R"(
Wanted, held and missing are (expert, slice) pairs: meant to be on the node, on
its disk, and meant to be but not there.

Examples:
  deltafin placement show
  deltafin placement show --layer 17 --expert 803 --json)";

std::string SlicesOf(const v1::PlacedRun& run) {
  return fmt::format("{}-{}", run.first_slice(),
                     run.first_slice() + run.num_slices() - 1);
}

}  // namespace

PlacementCommand::PlacementCommand(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* const show =
      app.add_subcommand("show", "The placement that is in force");
  show->footer(kFooter);
  show->fallthrough();
  AdminClient::AddFlags(*show, &target_);
  CLI::Option* const layer =
      show->add_option("--layer", layer_, "Layer of one expert, from 0");
  CLI::Option* const expert =
      show->add_option("--expert", expert_, "Show where this one is");
  layer->needs(expert);
  expert->needs(layer);
  show->add_flag("--json", json_, "Print one JSON object");
}

absl::Status PlacementCommand::Run(TerminationSignal& /*signals*/) {
  ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(target_));
  v1::GetPlacementRequest request;
  request.set_one_expert(layer_.has_value());
  request.set_layer(layer_.value_or(0));
  request.set_expert(expert_.value_or(0));
  ASSIGN_OR_RETURN(const v1::PlacementReport report,
                   client.GetPlacement(request));
  WriteOutput(json_ ? PlacementJson(report) : PlacementTable(report));
  return absl::OkStatus();
}

std::string PlacementTable(const v1::PlacementReport& report) {
  std::string text = fmt::format(
      "epoch        {}\n"
      "policy       {}, {} cop{} of everything\n\n",
      report.epoch(), report.policy(), report.copies(),
      report.copies() == 1 ? "y" : "ies");
  TextTable shares({"node", "share", "wanted", "held", "missing"});
  for (const v1::PlacementReport::Share& share : report.shares()) {
    shares.Add({share.node(), fmt::format("{:.1f}%", 100 * share.share()),
                fmt::format("{}", share.slices_wanted()),
                fmt::format("{}", share.slices_held()),
                fmt::format("{}", share.slices_missing())});
  }
  text += shares.ToString();
  if (report.runs().empty()) return text;
  TextTable runs({"slices", "copy", "node", "held"});
  for (const v1::PlacedRun& run : report.runs()) {
    runs.Add({SlicesOf(run), fmt::format("{}", run.copy()), run.node(),
              run.held() ? "yes" : "no"});
  }
  return text + '\n' + runs.ToString();
}

std::string PlacementJson(const v1::PlacementReport& report) {
  Json shares = Json::array();
  for (const v1::PlacementReport::Share& share : report.shares()) {
    shares.push_back({{"node", share.node()},
                      {"share", share.share()},
                      {"slices_wanted", share.slices_wanted()},
                      {"slices_held", share.slices_held()},
                      {"slices_missing", share.slices_missing()}});
  }
  Json runs = Json::array();
  for (const v1::PlacedRun& run : report.runs()) {
    runs.push_back({{"first_slice", run.first_slice()},
                    {"num_slices", run.num_slices()},
                    {"copy", run.copy()},
                    {"node", run.node()},
                    {"held", run.held()}});
  }
  const Json json = {{"epoch", report.epoch()},
                     {"policy", report.policy()},
                     {"copies", report.copies()},
                     {"shares", shares},
                     {"runs", runs}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace deltafin
