#include "coordinator/cli/drain_command.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/standard_output.h"

namespace deltafin {
namespace {

constexpr double kMaxSeconds = 86400.0 * 365;

constexpr char kDrainFooter[] = R"(
NODE is an id, the beginning of one, or an address, as `deltafin health` shows
them. The node gets no new work, running generations go on, others copy what it
alone has, and the command waits until the node has nothing to do and may be
switched off. It stays out of service, also when it comes back, until --undo;
over restarts of the coordinator where that has a --state folder.

A node that alone has some of the experts while no other node copies is not
drained: start another first (exit code 69). With --deadline the command ends
after that time with exit code 69; the node stays out of service then, as it
does after Ctrl-C.

Examples:
  deltafin drain 127.0.0.1:7400
  deltafin drain 3f2a --deadline 60
  deltafin drain 3f2a --undo)";

}  // namespace

DrainCommand::DrainCommand(CLI::App& app) {
  app.footer(kDrainFooter);
  app.add_option("NODE", node_, "Id, beginning of an id, or address")
      ->required();
  AdminClient::AddFlags(app, &target_);
  CLI::Option* const deadline =
      app.add_option("--deadline", deadline_seconds_,
                     "Seconds to wait at most (default: as long as it takes)")
          ->check(CLI::Range(0.001, kMaxSeconds));
  app.add_flag("--undo", undo_, "Take the node back into service")
      ->excludes(deadline);
}

absl::Status DrainCommand::Run(TerminationSignal& /*signals*/) {
  if (std::isnan(deadline_seconds_)) {  // which no range leaves out
    return UsageError("--deadline: nan is no number of seconds");
  }
  ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(target_));
  v1::DrainRequest request;
  request.set_node(node_);
  request.set_deadline_ms(static_cast<uint64_t>(deadline_seconds_ * 1000));
  request.set_undo(undo_);
  return client.WatchDrain(request, [](const v1::DrainProgress& progress) {
    WriteOutput(DrainLine(progress));
  });
}

std::string DrainLine(const v1::DrainProgress& progress) {
  return OneLine(progress.step()) + '\n';
}

}  // namespace deltafin
