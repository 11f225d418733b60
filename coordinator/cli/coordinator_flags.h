// coordinator/cli/coordinator_flags.h
//
// The flags of CoordinatorConfig: every field has one of the same name, given
// flags override the file that --config names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/options.h"
#include "proto/config.pb.h"

namespace CLI {
class App;
}

namespace deltafin {

class CoordinatorFlags {
 public:
  // Adds the flags to the subcommand; both must outlive the parsing.
  void AddTo(CLI::App& app);
  // Those of a cluster whose nodes come and go. Without them Options() has no
  // such cluster, whatever the file says.
  void AddClusterTo(CLI::App& app);

  // The merged and checked options, with the credentials read from their files.
  // A model that is named nowhere becomes k3-nano. Errors: a usage error when
  // the flags are wrong by themselves, INVALID_ARGUMENT with path and line for
  // the file.
  absl::StatusOr<CoordinatorOptions> Options() const;

  // File and flags merged, unchecked: for the fields that CoordinatorOptions
  // does not hold (listen).
  absl::StatusOr<v1::CoordinatorConfig> Config() const;

 private:
  void AddCredentialsTo(CLI::App& app);
  void ApplyTo(v1::CoordinatorConfig& config) const;

  std::string config_file_;
  std::optional<std::string> model_, nodes_, spine_, device_, device_ram_,
      kernel_, ram_, expert_device_, expert_device_ram_, spine_ram_, cache_dir_,
      read_ahead_, prefix_cache_, speculate_;
  std::optional<uint32_t> threads_, prefill_chunk_, context_,
      layer_deadline_ms_, heartbeat_ms_, gone_after_ms_, hedge_budget_,
      keepalive_ms_, copies_, rebalance_after_s_;
  std::optional<std::string> state_, metrics_, copy_budget_;
  std::optional<std::string> cluster_token_file_, tls_ca_, tls_cert_, tls_key_;
  std::optional<bool> cluster_, own_experts_;
  bool with_cluster_ = false;
  std::string test_placement_;
  std::function<bool()> log_level_given_;
};

}  // namespace deltafin
