#include "coordinator/cli/setup_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/base/memory_budget.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "expert_node/storage/hub_environment.h"

namespace deltafin {
namespace {

constexpr char kDefaultModel[] = "moonshotai/Kimi-K3";
constexpr int kMaxParallel = 64;

constexpr char kSetupFooter[] = R"(
Examples:
  deltafin setup --full --dir /models/k3           all of Kimi K3: 1.56 TB
  deltafin setup --stream --dir /models/k3         its spine; experts on demand
  deltafin setup --full --from /mnt/Kimi-K3 --dir /models/k3
  deltafin setup --resume --dir /models/k3         goes on after Ctrl-C

Then: deltafin run --model /models/k3 --chat --prompt "Hi"
HF_ENDPOINT, HF_TOKEN, HF_HOME and the proxy variables are honoured.)";

constexpr char kFetchFooter[] = R"(
Example:
  deltafin fetch-experts /models/k3)";

void AddPaceFlags(CLI::App& app, int& parallel, std::string& reserve) {
  app.add_option("--parallel", parallel, "Reads of the source at once")
      ->check(CLI::Range(1, kMaxParallel))
      ->capture_default_str();
  app.add_option("--reserve", reserve, "Drive space to leave free")
      ->capture_default_str();
}

void AddCompareFlag(CLI::App& app, bool& no_compare) {
  app.add_flag("--no-compare", no_compare,
               "Leave out the end: what was installed is read once and "
               "compared with the SHA-256 of the released shards");
}

absl::StatusOr<uint64_t> ParseReserve(const std::string& text) {
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
  if (bytes.ok()) return bytes;
  return UsageError("--reserve: " + std::string(bytes.status().message()));
}

}  // namespace

SetupCommand::SetupCommand(CLI::App& app) {
  app.footer(kSetupFooter);
  app.add_flag("--full", full_, "Install everything");
  app.add_flag("--stream", stream_,
               "Install the spine; experts come when they are first used");
  app.add_flag("--resume", resume_, "Go on with what was begun, or mend it");
  app.add_flag("--check", check_,
               "With --resume: read the experts that are there, and fetch "
               "again what is damaged or not as released");
  app.add_option("--model", model_,
                 std::string("REPO or REPO@REV of Hugging Face (default: ") +
                     kDefaultModel + ")");
  app.add_option("--from", from_, "Directory of released files instead");
  app.add_option("--dir", dir_, "Folder to install into")->required();
  AddPaceFlags(app, parallel_, reserve_);
  AddCompareFlag(app, no_compare_);
}

absl::StatusOr<InstallOrigin> SetupCommand::Origin() const {
  if (int{full_} + int{stream_} + int{resume_} != 1) {
    return UsageError("give one of --full, --stream and --resume");
  }
  if (!model_.empty() && !from_.empty()) {
    return UsageError("--model and --from exclude each other");
  }
  if (check_ && !resume_) {
    return UsageError("--check goes with --resume");
  }
  if (resume_) {
    if (!model_.empty() || !from_.empty()) {
      return UsageError(
          "--resume goes on with the source it began with; leave --model and "
          "--from out");
    }
    return ReadInstallOrigin(InstalledPaths(dir_));
  }
  InstallOrigin origin;
  origin.experts =
      full_ ? InstallOrigin::Experts::kAll : InstallOrigin::Experts::kOnDemand;
  if (!from_.empty()) {
    origin.directory = from_;
    return origin;
  }
  absl::StatusOr<ModelRevision> revision =
      ParseModelRevision(model_.empty() ? kDefaultModel : model_);
  if (!revision.ok()) {
    return UsageError("--model: " + std::string(revision.status().message()));
  }
  origin.revision = *std::move(revision);
  return origin;
}

absl::Status SetupCommand::Run(TerminationSignal& signals) {
  InstallRunOptions options;
  options.dir = dir_;
  options.parallel = parallel_;
  options.check_experts = check_;
  options.compare_shards = !no_compare_;
  ASSIGN_OR_RETURN(options.origin, Origin());
  ASSIGN_OR_RETURN(options.reserve_bytes, ParseReserve(reserve_));
  RETURN_IF_ERROR(RunInstall(options, signals));
  std::printf("%s is installed; deltafin run --model %s\n", dir_.c_str(),
              dir_.c_str());
  return absl::OkStatus();
}

FetchExpertsCommand::FetchExpertsCommand(CLI::App& app) {
  app.footer(kFetchFooter);
  app.add_option("DIR", dir_, "Installed model")->required();
  AddPaceFlags(app, parallel_, reserve_);
  AddCompareFlag(app, no_compare_);
}

absl::Status FetchExpertsCommand::Run(TerminationSignal& signals) {
  RETURN_IF_ERROR(RequireUsable(dir_));
  InstallRunOptions options;
  options.dir = dir_;
  options.parallel = parallel_;
  options.compare_shards = !no_compare_;
  ASSIGN_OR_RETURN(options.origin, ReadInstallOrigin(InstalledPaths(dir_)));
  options.origin.experts = InstallOrigin::Experts::kAll;
  ASSIGN_OR_RETURN(options.reserve_bytes, ParseReserve(reserve_));
  RETURN_IF_ERROR(RunInstall(options, signals));
  std::printf("%s has all its experts\n", dir_.c_str());
  return absl::OkStatus();
}

}  // namespace deltafin
