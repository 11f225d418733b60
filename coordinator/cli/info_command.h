// coordinator/cli/info_command.h
//
// `deltafin info DIR`: what a model needs against what this machine has, before
// anything is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/cli/command.h"

namespace CLI {
class App;
}

namespace deltafin {

class InfoCommand final : public Command {
 public:
  explicit InfoCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  std::string model_dir_;
  uint32_t context_ = 8192;
  bool json_ = false;
};

}  // namespace deltafin
