// coordinator/cli/serve_command.h
//
// `deltafin serve`: the gRPC services of a coordinator, until SIGTERM, SIGHUP
// or Ctrl-C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_flags.h"

namespace deltafin {

class Coordinator;
struct ServerOptions;

class ServeCommand final : public Command {
 public:
  explicit ServeCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::Status Serve(Coordinator& coordinator, const ServerOptions& server,
                     TerminationSignal& signals) const;

  CoordinatorFlags coordinator_flags_;
  std::optional<std::string> listen_;
  std::optional<int> max_sequences_;
  bool stats_ = false;
  bool json_ = false;
};

}  // namespace deltafin
