// coordinator/cli/generation_flags.h
//
// The flags that say how text is drawn, shared by run and chat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/engine/request.h"

namespace CLI {
class App;
}

namespace deltafin {

class GenerationFlags {
 public:
  explicit GenerationFlags(int default_max_new_tokens)
      : max_new_tokens_(default_max_new_tokens) {}

  // Adds the flags to the subcommand; both must outlive the parsing.
  void AddTo(CLI::App& app);
  // And --logprobs, for commands that can show them.
  void AddLogprobsTo(CLI::App& app);

  // A request without its prompt. Errors: a usage error naming the flag.
  absl::StatusOr<GenerationRequest> Request() const;

  // Generation ends before the first of these in the text.
  const std::vector<std::string>& stop_strings() const { return stop_; }

 private:
  absl::StatusOr<SamplingOptions> Sampling() const;

  SamplingOptions sampling_;  // but for the seed
  std::string seed_ = "0";
  int max_new_tokens_;
  bool ignore_eos_ = false;
  std::optional<int> logprobs_;
  std::vector<std::string> stop_;
};

}  // namespace deltafin
