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
#include "coordinator/cli/http_flags.h"

namespace deltafin {

class Coordinator;
struct ServerOptions;

class ServeCommand final : public Command {
 public:
  explicit ServeCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::Status Serve(Coordinator& coordinator, const ServerOptions& server,
                     const HttpApiOptions& http,
                     TerminationSignal& signals) const;
  absl::Status PrintStats(const Coordinator& coordinator) const;

  CoordinatorFlags coordinator_flags_;
  std::optional<std::string> listen_;
  std::optional<int> max_sequences_;
  std::optional<int> max_queued_;
  HttpFlags http_flags_;
  bool stats_ = false;
  bool json_ = false;
};

}  // namespace deltafin
