// coordinator/cli/run_command.h
//
// `deltafin run`: continues one prompt, or answers it, and ends.
#pragma once

#include <string>

#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_flags.h"
#include "coordinator/cli/generation.h"
#include "coordinator/cli/generation_flags.h"
#include "coordinator/cli/prompt_flags.h"
#include "coordinator/cli/run_report.h"

namespace deltafin {

class RunCommand final : public Command {
 public:
  explicit RunCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::Status CheckBeforeLoad(const Coordinator& coordinator,
                               const GenerationRequest& request) const;
  // Loads the model and says what was loaded.
  static absl::StatusOr<RunReport> Load(Coordinator& coordinator);
  // Streams text and dumps logits as the flags say.
  absl::StatusOr<GenerationOutput> Generate(Generation& generation,
                                            int vocab_size,
                                            GenerationRequest request,
                                            TextSinkOptions text) const;
  absl::Status Print(const RunReport& report) const;

  CoordinatorFlags coordinator_flags_;
  PromptFlags prompt_flags_;
  GenerationFlags generation_flags_{256};
  std::string dump_logits_;
  bool json_ = false;
  bool stats_ = false;
};

}  // namespace deltafin
