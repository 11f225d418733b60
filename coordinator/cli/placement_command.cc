#include "coordinator/cli/placement_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/memory_budget.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/standard_output.h"
#include "coordinator/cli/text_table.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPlacementFooter[] = R"(
Wanted, held and missing are (expert, slice) pairs: meant to be on the node, on
its disk, and meant to be but not there.

Examples:
  deltafin placement show
  deltafin placement show --layer 17 --expert 803 --json)";

constexpr char kPlanFooter[] = R"(
Says before a node goes, or the number of copies changes, what would be copied:
slices, bytes for each node, and the time within the budget (serve
--copy-budget). Without --without and --copies: what is still to be copied now.
Spare slices are held and not meant to be; they may stay as long as there is
room.

Examples:
  deltafin placement plan --without 127.0.0.1:7400
  deltafin placement plan --without 3f2a --copies 2 --json)";

constexpr char kBothFooter[] = R"(
Examples:
  deltafin placement show
  deltafin placement plan --without 127.0.0.1:7400)";

std::string Gibibytes(uint64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 30));
}

std::string SlicesOf(const v1::PlacedRun& run) {
  return fmt::format("{}-{}", run.first_slice(),
                     run.first_slice() + run.num_slices() - 1);
}

}  // namespace

PlacementCommand::PlacementCommand(CLI::App& app) {
  app.footer(kBothFooter);
  app.require_subcommand(1);
  AddShow(app);
  AddPlan(app);
}

void PlacementCommand::AddShow(CLI::App& app) {
  CLI::App* const show =
      app.add_subcommand("show", "The placement that is in force");
  show->footer(kPlacementFooter);
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

void PlacementCommand::AddPlan(CLI::App& app) {
  plan_ = app.add_subcommand("plan", "What would be copied; changes nothing");
  plan_->footer(kPlanFooter);
  plan_->fallthrough();
  AdminClient::AddFlags(*plan_, &target_);
  plan_->add_option("--without", without_,
                    "A node that is to go: id, beginning of one, or address; "
                    "may be given again");
  plan_->add_option("--copies", copies_, "Copies of every expert")
      ->check(CLI::Range(1, 16));
  plan_->add_flag("--json", json_, "Print one JSON object");
}

absl::Status PlacementCommand::Run(TerminationSignal& /*signals*/) {
  ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(target_));
  v1::GetPlacementRequest request;
  request.set_one_expert(layer_.has_value());
  request.set_layer(layer_.value_or(0));
  request.set_expert(expert_.value_or(0));
  request.mutable_without()->Assign(without_.begin(), without_.end());
  request.set_copies(copies_);
  ASSIGN_OR_RETURN(const v1::PlacementReport report,
                   client.GetPlacement(request));
  if (json_) {
    WriteOutput(PlacementJson(report));
  } else {
    WriteOutput(plan_->parsed() ? PlanTable(report) : PlacementTable(report));
  }
  return absl::OkStatus();
}

double CopySeconds(const v1::PlacementReport& report) {
  if (report.copy_bytes_per_second() == 0) return 0;
  uint64_t most = 0;
  for (const v1::PlacementReport::Share& share : report.shares()) {
    most = std::max(most, share.slices_missing());
  }
  return static_cast<double>(most) * static_cast<double>(report.slice_bytes()) /
         static_cast<double>(report.copy_bytes_per_second());
}

std::string PlanTable(const v1::PlacementReport& report) {
  TextTable shares({"node", "share", "meant", "to copy", "GiB", "spare"});
  uint64_t missing = 0;
  for (const v1::PlacementReport::Share& share : report.shares()) {
    missing += share.slices_missing();
    shares.Add({share.node(), fmt::format("{:.1f}%", 100 * share.share()),
                fmt::format("{}", share.slices_wanted()),
                fmt::format("{}", share.slices_missing()),
                Gibibytes(share.slices_missing() * report.slice_bytes()),
                fmt::format("{}", share.slices_spare())});
  }
  std::string text = fmt::format(
      "with {} cop{} of everything {} slices, {} GiB, are to be copied",
      report.copies(), report.copies() == 1 ? "y" : "ies", missing,
      Gibibytes(missing * report.slice_bytes()));
  if (report.copy_bytes_per_second() > 0) {
    text +=
        fmt::format(": at least {:.0f} s at {}/s a node", CopySeconds(report),
                    FormatByteSize(report.copy_bytes_per_second()));
  }
  if (report.uncovered_slices() > 0) {
    text += fmt::format(
        "\n{} slices are on no node: they come from a node's "
        "own source, or the coordinator's",
        report.uncovered_slices());
  }
  return text + "\n\n" + shares.ToString();
}

std::string PlacementTable(const v1::PlacementReport& report) {
  std::string text = fmt::format(
      "epoch        {}\n"
      "policy       {}, {} cop{} of everything\n\n",
      report.epoch(), OneLine(report.policy()), report.copies(),
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
                      {"slices_missing", share.slices_missing()},
                      {"slices_spare", share.slices_spare()}});
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
                     {"runs", runs},
                     {"slice_bytes", report.slice_bytes()},
                     {"copy_bytes_per_second", report.copy_bytes_per_second()},
                     {"copy_seconds", CopySeconds(report)},
                     {"uncovered_slices", report.uncovered_slices()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace deltafin
