// coordinator/cli/health_command.h
//
// `deltafin health`: who is in the cluster, how they do, and can it work?
#pragma once

#include <string>

#include "absl/time/time.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/command.h"
#include "proto/admin.pb.h"

namespace deltafin {

// Exit codes of a coordinator that answers; see also docs/operations.md.
inline constexpr int kExitDegraded = 1;
inline constexpr int kExitDown = 2;

class HealthCommand final : public Command {
 public:
  explicit HealthCommand(CLI::App& app);
  // Errors: those of AdminClient; HealthStatus of what was shown. With --watch
  // OK, when a signal ends it.
  absl::Status Run(TerminationSignal& signals) override;

 private:
  absl::Status Watch(AdminClient& client, absl::Duration interval,
                     TerminationSignal& signals) const;
  std::string Text(const v1::ClusterHealth& health) const;

  AdminTarget target_;
  std::string watch_;  // seconds; empty: once
  bool json_ = false;
};

// Of --watch, in seconds: "2", "0.5". Errors: UsageError.
absl::StatusOr<absl::Duration> ParseWatchInterval(const std::string& text);

// OK when healthy; otherwise the reason, with exit code kExitDegraded or
// kExitDown.
absl::Status HealthStatus(const v1::ClusterHealth& health);

std::string HealthTable(const v1::ClusterHealth& health);
// One object on one line.
std::string HealthJson(const v1::ClusterHealth& health);

}  // namespace deltafin
