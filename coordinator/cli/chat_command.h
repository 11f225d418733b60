// coordinator/cli/chat_command.h
//
// `deltafin chat`: a conversation on the terminal.
#pragma once

#include <string>

#include "coordinator/cli/chat_session.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_flags.h"
#include "coordinator/cli/generation_flags.h"

namespace deltafin {

class ChatCommand final : public Command {
 public:
  explicit ChatCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  CoordinatorFlags coordinator_flags_;
  GenerationFlags generation_flags_{4096};
  std::string system_;
  std::string thinking_ = "max";
};

}  // namespace deltafin
