// coordinator/cli/explain_command.h
//
// `deltafin explain [REQUEST]`: where the time of a request's prompt and of its
// slowest token went.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/command.h"
#include "proto/admin.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class ExplainCommand final : public Command {
 public:
  explicit ExplainCommand(CLI::App& app);
  // Errors: those of AdminClient; NOT_FOUND with the requests that are known.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  AdminTarget target_;
  uint64_t request_ = 0;
  bool json_ = false;
};

std::string ExplanationTable(const v1::Explanation& explanation);
// One object on one line.
std::string ExplanationJson(const v1::Explanation& explanation);

}  // namespace deltafin
