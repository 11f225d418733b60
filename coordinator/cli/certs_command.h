// coordinator/cli/certs_command.h
//
// `deltafin certs`: makes and shows what the programs of a cluster prove
// themselves with.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/cli/command.h"

namespace CLI {
class App;
}

namespace deltafin {

class CertsCommand final : public Command {
 public:
  explicit CertsCommand(CLI::App& app);
  absl::Status Run(TerminationSignal& signals) override;

 private:
  // Each prints what it made, and what to do with it. No file is ever replaced.
  absl::Status MakeToken() const;
  absl::Status MakeAuthorityFiles() const;
  absl::Status IssueFiles() const;
  absl::Status Show() const;

  CLI::App* token_;
  CLI::App* init_;
  CLI::App* issue_;
  CLI::App* show_;
  std::string path_;  // a file, or the authority's folder
  std::string name_;  // of the machine
  int authority_days_ = 3650;
  int days_ = 730;
  bool is_administrator_ = false;
};

}  // namespace deltafin
