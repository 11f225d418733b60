#include "coordinator/cli/health_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/standard_output.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr double kMinSeconds = 0.1;
constexpr double kMaxSeconds = 86400;
// To the corner, and nothing behind what is written next.
constexpr char kRepaint[] = "\x1b[H\x1b[J";

constexpr char kHealthFooter[] = R"(
Exit codes: 0 healthy, 1 degraded (works, with fewer copies than configured or a
member in trouble), 2 down (some expert is on no node in service), 69 when no
coordinator answers. --watch ends with 0 on Ctrl-C.

Examples:
  deltafin health
  deltafin health --coordinator 127.0.0.1:9000 --json
  deltafin health --watch 5)";

// Waits that a signal ends.
class Pause {
 public:
  explicit Pause(TerminationSignal& signals)
      : handling_(signals, [this](int) {
          MutexLock lock(mutex_);
          is_over_ = true;
          changed_.NotifyAll();
          return true;
        }) {}

  // False: a signal came.
  bool For(absl::Duration duration) {
    const absl::Time until = absl::Now() + duration;
    MutexLock lock(mutex_);
    while (!is_over_ && absl::Now() < until) changed_.WaitUntil(mutex_, until);
    return !is_over_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  SignalHandling handling_;
};

}  // namespace

HealthCommand::HealthCommand(CLI::App& app) {
  app.footer(kHealthFooter);
  AdminClient::AddFlags(app, &target_);
  app.add_flag("--json", json_, "Print one JSON object");
  app.add_option("--watch", watch_, "Show it again and again, every SECONDS")
      ->expected(0, 1)
      ->default_str("2")
      ->type_name("[SECONDS]");
}

absl::Status HealthCommand::Run(TerminationSignal& signals) {
  ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(target_));
  if (!watch_.empty()) {
    ASSIGN_OR_RETURN(const absl::Duration interval, ParseWatchInterval(watch_));
    return Watch(client, interval, signals);
  }
  ASSIGN_OR_RETURN(const v1::ClusterHealth health, client.GetHealth());
  if (!WriteOutput(Text(health))) return FlushOutput();
  return HealthStatus(health);
}

absl::Status HealthCommand::Watch(AdminClient& client, absl::Duration interval,
                                  TerminationSignal& signals) const {
  const bool is_terminal = isatty(STDOUT_FILENO) == 1 && !json_;
  Pause pause(signals);
  do {
    const absl::StatusOr<v1::ClusterHealth> health = client.GetHealth();
    std::string text = is_terminal ? kRepaint : "";
    if (health.ok()) {
      text += Text(*health);
    } else if (!absl::IsUnavailable(health.status()) &&
               !absl::IsDeadlineExceeded(health.status())) {
      return health.status();
    } else if (json_) {  // whose lines are objects alone
      std::fprintf(stderr, "%s\n",
                   OneLine(std::string(health.status().message())).c_str());
    } else {
      text += OneLine(std::string(health.status().message())) + '\n';
    }
    if (!is_terminal && !json_) text += '\n';
    if (!WriteOutput(text)) return FlushOutput();
  } while (pause.For(interval));
  return absl::OkStatus();
}

std::string HealthCommand::Text(const v1::ClusterHealth& health) const {
  return json_ ? HealthJson(health) : HealthTable(health);
}

absl::StatusOr<absl::Duration> ParseWatchInterval(const std::string& text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds >= kMinSeconds &&
      seconds <= kMaxSeconds) {
    return absl::Seconds(seconds);
  }
  return UsageError(fmt::format("--watch: '{}', want {} to {} seconds", text,
                                kMinSeconds, kMaxSeconds));
}

absl::Status HealthStatus(const v1::ClusterHealth& health) {
  switch (health.verdict()) {
    case v1::ClusterHealth::HEALTHY:
      return absl::OkStatus();
    case v1::ClusterHealth::DEGRADED:
      return WithExitCode(absl::UnavailableError(fmt::format(
                              "the cluster is degraded: {}", health.reason())),
                          kExitDegraded);
    default:
      return WithExitCode(absl::UnavailableError(fmt::format(
                              "the cluster is down: {}", health.reason())),
                          kExitDown);
  }
}

}  // namespace deltafin
