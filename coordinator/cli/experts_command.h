// coordinator/cli/experts_command.h
//
// `deltafin experts show | quota | remove | fetch | move`: what a running
// program keeps on its drive, and changing that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/expert_key.h"
#include "common/net/credentials.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/storage_client.h"
#include "expert_node/storage/expert_index.h"
#include "proto/storage.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class ExpertsCommand final : public Command {
 public:
  explicit ExpertsCommand(CLI::App& app);
  // Errors: those of StorageClient; with a folder those of ExpertIndex::Read.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::Status Show();
  absl::Status SetQuota();
  absl::Status Remove();
  absl::Status Fetch();
  absl::Status Move();
  // Errors: a usage error where both are one; those of StorageClient.
  absl::Status RequireTwoPrograms(StorageClient& from, StorageClient& to) const;
  absl::StatusOr<StorageClient> Connect() const;
  // Calls `change` for each of experts_, tells of it, shows the last report.
  absl::Status ForEach(const std::string& done,
                       const std::function<absl::StatusOr<v1::StorageReport>(
                           const v1::StoredExpert&)>& change);
  absl::Status Print(const absl::StatusOr<v1::StorageReport>& report) const;

  absl::Status (ExpertsCommand::*run_)() = nullptr;
  std::string node_;
  std::string to_;
  CredentialFiles credentials_;
  std::string dir_;
  std::string quota_;
  bool remove_coldest_ = false;
  std::vector<std::string> experts_;
  int hottest_ = 10;
  bool json_ = false;
};

// "LAYER:EXPERT". Errors: INVALID_ARGUMENT with the text.
absl::StatusOr<ExpertKey> ParseExpertName(const std::string& text);

// What a program answered.
std::string StorageTable(const v1::StorageReport& report);
std::string StorageJson(const v1::StorageReport& report);

// What a folder's ledger says; the `hottest` experts, hottest first. Heat is in
// uses now.
std::string LedgerTable(const LedgerContents& ledger, int hottest);
std::string LedgerJson(const LedgerContents& ledger, int hottest);

}  // namespace deltafin
