#include "coordinator/cli/experts_command.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <utility>

#include "common/base/memory_budget.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/standard_output.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kExpertsFooter[] = R"(
--node is where `deltafin-node`, or `deltafin serve` with experts of its own,
listens; its model must be an installed one. What is changed takes effect at
once; generations go on, and what is wanted but not there is fetched again.
The quota also counts after a restart.

show DIR reads the ledger of an installed model instead, also while a program
uses it: what is on the drive, and what was used most of late.

Examples:
  deltafin experts show --node 127.0.0.1:7400
  deltafin experts show /models/Kimi-K3 --hottest 20
  deltafin experts quota 400G --remove-coldest --node 127.0.0.1:7400
  deltafin experts remove 17:803 17:804 --node 127.0.0.1:7400
  deltafin experts move 17:803 --node 127.0.0.1:7400 --to 127.0.0.1:7401)";

}  // namespace

ExpertsCommand::ExpertsCommand(CLI::App& app) {
  app.footer(kExpertsFooter);
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* description,
                       absl::Status (ExpertsCommand::*run)()) {
    CLI::App* const sub = app.add_subcommand(name, description);
    sub->fallthrough();
    AddCredentialFlags(*sub, &credentials_);
    sub->add_flag("--json", json_, "Print one JSON object");
    sub->callback([this, run] { run_ = run; });
    return sub;
  };
  const auto add_node = [&](CLI::App* sub) {
    return sub->add_option("--node", node_, "HOST:PORT of the program");
  };
  const auto add_experts = [&](CLI::App* sub) {
    sub->add_option("EXPERT", experts_, "LAYER:EXPERT, each from 0")
        ->required();
    add_node(sub)->required();
  };
  CLI::App* const show =
      add("show", "What is kept, and how hot it is", &ExpertsCommand::Show);
  CLI::Option* const dir =
      show->add_option("DIR", dir_, "Folder of an installed model");
  add_node(show)->excludes(dir);
  show->add_option("--hottest", hottest_, "With DIR: experts to list")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  CLI::App* const quota = add("quota", "Bytes of experts that may be kept",
                              &ExpertsCommand::SetQuota);
  quota->add_option("SIZE", quota_, "As 400G, or \"none\"")->required();
  quota->add_flag("--remove-coldest", remove_coldest_,
                  "Remove the experts used least until the others fit");
  add_node(quota)->required();
  add_experts(
      add("remove", "Take experts off the drive", &ExpertsCommand::Remove));
  add_experts(
      add("fetch", "Bring experts onto the drive", &ExpertsCommand::Fetch));
  CLI::App* const move = add("move",
                             "Bring experts to another node, then take "
                             "them off this one",
                             &ExpertsCommand::Move);
  add_experts(move);
  move->add_option("--to", to_, "HOST:PORT of the other node")->required();
}

absl::Status ExpertsCommand::Run(TerminationSignal& /*signals*/) {
  return (this->*run_)();
}

absl::StatusOr<StorageClient> ExpertsCommand::Connect() const {
  return StorageClient::Create("--node", node_, credentials_);
}

absl::Status ExpertsCommand::Print(
    const absl::StatusOr<v1::StorageReport>& report) const {
  RETURN_IF_ERROR(report.status());
  WriteOutput(json_ ? StorageJson(*report) : StorageTable(*report));
  return absl::OkStatus();
}

absl::Status ExpertsCommand::Show() {
  if (dir_.empty() && node_.empty()) {
    return UsageError("experts show: name a folder, or a program with --node");
  }
  if (dir_.empty()) {
    ASSIGN_OR_RETURN(StorageClient client, Connect());
    return Print(client.Get());
  }
  ASSIGN_OR_RETURN(const LedgerContents ledger,
                   ExpertIndex::Read(InstalledPaths(dir_).experts_folder()));
  WriteOutput(json_ ? LedgerJson(ledger, hottest_)
                    : LedgerTable(ledger, hottest_));
  return absl::OkStatus();
}

absl::Status ExpertsCommand::SetQuota() {
  v1::SetQuotaRequest request;
  request.set_remove_coldest(remove_coldest_);
  request.set_unlimited(quota_ == "none");
  if (!request.unlimited()) {
    const absl::StatusOr<uint64_t> bytes = ParseByteSize(quota_);
    if (!bytes.ok()) return UsageError(std::string(bytes.status().message()));
    request.set_quota_bytes(*bytes);
  }
  ASSIGN_OR_RETURN(StorageClient client, Connect());
  return Print(client.SetQuota(request));
}

absl::Status ExpertsCommand::ForEach(
    const std::string& done,
    const std::function<
        absl::StatusOr<v1::StorageReport>(const v1::StoredExpert&)>& change) {
  std::vector<v1::StoredExpert> wanted;
  for (const std::string& text : experts_) {
    const absl::StatusOr<ExpertKey> key = ParseExpertName(text);
    if (!key.ok()) return UsageError(std::string(key.status().message()));
    v1::StoredExpert& one = wanted.emplace_back();
    one.set_layer(key->layer);
    one.set_expert(key->expert);
  }
  absl::StatusOr<v1::StorageReport> report;
  for (size_t i = 0; i < wanted.size(); ++i) {
    report = change(wanted[i]);
    RETURN_IF_ERROR(report.status());
    if (!json_) WriteOutput(fmt::format("{} {}\n", done, experts_[i]));
  }
  return Print(report);
}

absl::Status ExpertsCommand::Remove() {
  ASSIGN_OR_RETURN(StorageClient client, Connect());
  return ForEach("removed", [&client](const v1::StoredExpert& expert) {
    return client.Remove(expert);
  });
}

absl::Status ExpertsCommand::Fetch() {
  ASSIGN_OR_RETURN(StorageClient client, Connect());
  return ForEach("fetched", [&client](const v1::StoredExpert& expert) {
    return client.Fetch(expert);
  });
}

// What is moved to where it is would only be removed.
absl::Status ExpertsCommand::RequireTwoPrograms(StorageClient& from,
                                                StorageClient& to) const {
  ASSIGN_OR_RETURN(const v1::StorageReport here, from.Get());
  ASSIGN_OR_RETURN(const v1::StorageReport there, to.Get());
  if (here.program().empty() || here.program() != there.program()) {
    return absl::OkStatus();
  }
  return UsageError(fmt::format(
      "--node {} and --to {} are the same program; name another one in --to",
      node_, to_));
}

// Removed only once it is on the other drive.
absl::Status ExpertsCommand::Move() {
  ASSIGN_OR_RETURN(StorageClient from, Connect());
  ASSIGN_OR_RETURN(StorageClient to,
                   StorageClient::Create("--to", to_, credentials_));
  RETURN_IF_ERROR(RequireTwoPrograms(from, to));
  return ForEach(
      "moved",
      [&](const v1::StoredExpert& expert) -> absl::StatusOr<v1::StorageReport> {
        RETURN_IF_ERROR(to.Fetch(expert).status());
        return from.Remove(expert);
      });
}

absl::StatusOr<ExpertKey> ParseExpertName(const std::string& text) {
  ExpertKey key;
  const char* const end = text.data() + text.size();
  const auto layer = std::from_chars(text.data(), end, key.layer);
  if (layer.ec == std::errc() && layer.ptr != end && *layer.ptr == ':') {
    const auto expert = std::from_chars(layer.ptr + 1, end, key.expert);
    if (expert.ec == std::errc() && expert.ptr == end && key.layer >= 0 &&
        key.expert >= 0) {
      return key;
    }
  }
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is no expert; write LAYER:EXPERT, such as 17:803", text));
}

}  // namespace deltafin
