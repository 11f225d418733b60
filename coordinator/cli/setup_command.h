// coordinator/cli/setup_command.h
//
// `deltafin setup`: installs a model into a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/install_run.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace deltafin {

class SetupCommand : public Command {
 public:
  explicit SetupCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::StatusOr<InstallOrigin> Origin() const;

  std::string dir_;
  std::string model_;
  std::string from_;
  std::string reserve_ = "1G";
  int parallel_ = 8;
  bool full_ = false;
  bool stream_ = false;
  bool resume_ = false;
  bool check_ = false;
  bool no_compare_ = false;
};

// `deltafin fetch-experts`: brings the experts that an installed model lacks.
class FetchExpertsCommand : public Command {
 public:
  explicit FetchExpertsCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  std::string dir_;
  std::string reserve_ = "1G";
  int parallel_ = 8;
  bool no_compare_ = false;
};

}  // namespace deltafin
