// coordinator/cli/doctor_command.h
//
// `deltafin doctor`: what is missing or damaged in an installed model.
#pragma once

#include <string>

#include "coordinator/cli/command.h"

namespace CLI {
class App;
}

namespace deltafin {

class DoctorCommand : public Command {
 public:
  explicit DoctorCommand(CLI::App& app);
  // Ends with exit code 1 where something is missing or damaged.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  std::string dir_;
  bool deep_ = false;
  bool json_ = false;
};

}  // namespace deltafin
