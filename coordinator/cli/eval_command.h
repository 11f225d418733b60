// coordinator/cli/eval_command.h
//
// `deltafin eval`: how well a model predicts a text, and how far one spine lies
// from another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_flags.h"
#include "coordinator/cli/eval_windows.h"

namespace deltafin {

class EvalCommand final : public Command {
 public:
  explicit EvalCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  // Measures with the given spine, then with the other one.
  absl::Status Compare(Coordinator& coordinator, CoordinatorOptions options,
                       const Windows& windows) const;
  // Measures here, then at the endpoint.
  absl::Status CompareEndpoint(Coordinator& coordinator,
                               const Windows& windows) const;

  CoordinatorFlags coordinator_flags_;
  std::string text_file_;
  int window_ = 1024;
  int max_windows_ = 0;  // 0: the whole text
  std::string against_;  // a --spine to compare with, or empty
  // An endpoint to compare with, or empty; with its model, key and form.
  std::string compare_url_;
  std::string compare_model_;
  std::string compare_key_file_;
  std::string compare_as_ = "text";
  bool json_ = false;
};

}  // namespace deltafin
