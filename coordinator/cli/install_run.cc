#include "coordinator/cli/install_run.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/progress.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/hub_access.h"

namespace deltafin {
namespace {

// A line of its own for each kind of step; the text before the comma names it.
class StepProgress {
 public:
  void Update(std::string_view step, uint64_t done, uint64_t total) {
    const std::string_view kind = step.substr(0, step.find(','));
    if (kind != kind_) {
      kind_ = kind;
      progress_.emplace(kind_);
      spdlog::debug("{}", kind_);
    }
    progress_->SetLabel(std::string(step));
    progress_->Update(done, total);
  }

 private:
  std::string kind_;
  std::optional<Progress> progress_;
};

absl::Status Interrupted(int signal, const std::string& dir) {
  std::fprintf(stderr,
               "deltafin: stopped; `deltafin setup --resume --dir %s` goes "
               "on\n",
               dir.c_str());
  return InterruptedError(signal);
}

}  // namespace

absl::Status RunInstall(const InstallRunOptions& options,
                        TerminationSignal& signals) {
  RETURN_IF_ERROR(CheckInstallFolder(options.dir, nullptr));
  HubAccess access;
  if (options.origin.directory.empty()) {
    ASSIGN_OR_RETURN(access, HubAccessOfEnvironment());
  }
  ASSIGN_OR_RETURN(OpenedSource opened, OpenOrigin(options.origin, access));
  spdlog::info("installing {} into {}", opened.origin.name(), options.dir);
  const std::function<void()> cancel = opened.cancel;
  std::atomic<int> signal{0};
  StepProgress progress;
  InstallOptions install;
  install.parallel = options.parallel;
  install.reserve_bytes = options.reserve_bytes;
  install.check_experts = options.check_experts;
  install.compare_shards = options.compare_shards;
  install.cancelled = [&signal] { return signal != 0; };
  install.progress = [&progress](std::string_view step, uint64_t done,
                                 uint64_t total) {
    progress.Update(step, done, total);
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelInstaller> installer,
                   ModelInstaller::Prepare(options.dir, std::move(opened),
                                           std::move(install)));
  spdlog::info("{}", installer->plan().Text(options.dir));
  absl::Status status;
  {
    const SignalHandling handling(signals, [&signal, &cancel](int number) {
      if (signal.exchange(number) != 0) return false;
      cancel();
      return true;
    });
    status = installer->Run();
  }
  if (signal != 0 && !status.ok()) return Interrupted(signal, options.dir);
  return status;
}

}  // namespace deltafin
