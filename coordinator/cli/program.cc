#include "coordinator/cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/printable_text.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/bench_command.h"
#include "coordinator/cli/certs_command.h"
#include "coordinator/cli/chat_command.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/doctor_command.h"
#include "coordinator/cli/drain_command.h"
#include "coordinator/cli/eval_command.h"
#include "coordinator/cli/experts_command.h"
#include "coordinator/cli/explain_command.h"
#include "coordinator/cli/health_command.h"
#include "coordinator/cli/info_command.h"
#include "coordinator/cli/placement_command.h"
#include "coordinator/cli/plan_command.h"
#include "coordinator/cli/run_command.h"
#include "coordinator/cli/serve_command.h"
#include "coordinator/cli/setup_command.h"
#include "coordinator/cli/standard_output.h"

namespace deltafin {
namespace {

constexpr char kDescription[] =
    "deltafin runs models of the Kimi K3 family: the spine here, the routed "
    "experts here or on expert nodes, with the same bits either way.";

constexpr char kProgramFooter[] = R"(
Examples:
  deltafin run --prompt "It was a dark" --max-new-tokens 16
  deltafin run --chat --prompt "Who are you?" --model /models/Kimi-K3
  deltafin info /models/Kimi-K3
  deltafin serve --listen 127.0.0.1:8500 --nodes host-a:7400,host-b:7400

Exit codes: 0 ok, 1 failed, 64 wrong flags, 65 bad input (model, prompt, file),
69 unavailable (node, port, memory, disk), 128 + N ended by signal N (Ctrl-C:
130, SIGTERM: 143, SIGHUP: 129). `health` ends with 1 degraded, 2 down.
`deltafin COMMAND --help` tells more.)";

// Flags whose empty value says something; the others are meant to be left out.
bool MayBeEmpty(const CLI::Option& option) {
  constexpr std::string_view kNames[] = {"--prompt", "--prompt-ids", "--system",
                                         "--ab", "--both"};
  return std::ranges::find(kNames, option.get_name()) != std::end(kNames);
}

void RefuseEmptyValues(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& value) {
        return value.empty() ? std::string(
                                   "the value is empty; give one, or "
                                   "leave the flag out")
                             : std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0 && !MayBeEmpty(*option)) {
      option->check(not_empty);
    }
  }
}

using Subcommand = std::pair<CLI::App*, std::unique_ptr<Command>>;

template <typename T>
Subcommand Add(CLI::App& app, const char* name, const char* description) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->fallthrough();  // --log-level may follow the subcommand
  auto command = std::make_unique<T>(*sub);
  RefuseEmptyValues(*sub);
  return {sub, std::move(command)};
}

std::vector<Subcommand> AddSubcommands(CLI::App& app) {
  std::vector<Subcommand> all;
  all.push_back(Add<RunCommand>(app, "run", "Continue a prompt, or answer it"));
  all.push_back(Add<ChatCommand>(app, "chat", "Talk with the model"));
  all.push_back(Add<ServeCommand>(app, "serve", "Serve programs over gRPC"));
  all.push_back(
      Add<SetupCommand>(app, "setup", "Install a model into a folder"));
  all.push_back(Add<FetchExpertsCommand>(
      app, "fetch-experts", "Bring the experts an installed model lacks"));
  all.push_back(Add<DoctorCommand>(
      app, "doctor", "What is missing or damaged in an installed model"));
  all.push_back(Add<ExpertsCommand>(
      app, "experts", "What a node keeps on its drive, and changing that"));
  all.push_back(Add<InfoCommand>(
      app, "info", "What a model needs against what this machine has"));
  all.push_back(
      Add<EvalCommand>(app, "eval", "Measure how well a text is predicted"));
  all.push_back(Add<CertsCommand>(
      app, "certs", "Make what a cluster's machines prove themselves with"));
  all.push_back(
      Add<BenchCommand>(app, "bench", "Compare two sets of flags in speed"));
  all.push_back(Add<PlanCommand>(
      app, "plan", "Predict tokens a second of a cluster from its machines"));
  all.push_back(Add<HealthCommand>(
      app, "health", "Who is in the cluster, and whether it can work"));
  all.push_back(Add<DrainCommand>(
      app, "drain", "Take a node out of service, to switch it off"));
  all.push_back(Add<PlacementCommand>(
      app, "placement", "Which node is meant to have which experts"));
  all.push_back(
      Add<ExplainCommand>(app, "explain", "Where the time of a request went"));
  return all;
}

int Report(const absl::Status& status) {
  if (!status.ok()) {
    const std::string message = PrintableLines(std::string(status.message()));
    std::fprintf(stderr, "deltafin: %s\n", message.c_str());
  }
  return ExitCodeOf(status);
}

// What CLI11 says, where it can be said more plainly.
std::string ExplainParseError(const CLI::App& app,
                              const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (text == "A subcommand is required" && !unknown.empty()) {
    return "'" + unknown.front() + "' is no command; --help lists them";
  }
  constexpr std::string_view kConversion = "Could not convert: ";
  if (text.starts_with(kConversion)) {
    return text.substr(kConversion.size()) +
           " is no value of the kind that --help tells";
  }
  return text + "; --help tells more";
}

int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);  // prints help or version
    return Report(FlushOutput());
  }
  return Report(UsageError(ExplainParseError(app, error)));
}

}  // namespace

int RunProgram(int argc, char** argv, TerminationSignal& signals) {
  InitLogging("deltafin");
  CLI::App app(kDescription);
  app.footer(kProgramFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "deltafin " DELTAFIN_VERSION);
  std::string log_level = "info";
  app.add_option("--log-level", log_level,
                 "trace, debug, info, warn, error or off")
      ->capture_default_str();
  RefuseEmptyValues(app);
  const std::vector<Subcommand> subcommands = AddSubcommands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  }
  if (const absl::Status status = SetLogLevel(log_level); !status.ok()) {
    return Report(UsageError(std::string(status.message())));
  }
  for (const auto& [sub, command] : subcommands) {
    if (!sub->parsed()) continue;
    const absl::Status status = command->Run(signals);
    return Report(status.ok() ? FlushOutput() : status);
  }
  return kExitUsage;
}

}  // namespace deltafin
