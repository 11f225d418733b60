#include "coordinator/cli/coordinator_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/config_file.h"
#include "common/net/credentials.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/default_model.h"
#include "coordinator/cli/hub_access.h"

namespace deltafin {
namespace {

constexpr char kModelGroup[] = "Model and machine";
constexpr char kClusterGroup[] = "Cluster";
constexpr char kSecurityGroup[] = "Security";
constexpr char kHidden[] = "";  // a group that --help leaves out
constexpr std::string_view kRandomPlacement = "random:";

absl::StatusOr<uint64_t> ParsePlacementSeed(std::string_view text) {
  uint64_t seed = 0;
  if (text.starts_with(kRandomPlacement)) {
    text.remove_prefix(kRandomPlacement.size());
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc() && end == text.data() + text.size()) return seed;
  }
  return UsageError("--test-placement: expected random:SEED");
}

// "a:1, b:2" -> "a:1", "b:2". An entry without text stays, to be refused.
std::vector<std::string> SplitNodes(const std::string& text) {
  std::vector<std::string> nodes = absl::StrSplit(text, ',');
  for (std::string& node : nodes) absl::StripAsciiWhitespace(&node);
  return nodes;
}

absl::Status CheckNodes(const std::vector<std::string>& nodes,
                        bool is_plaintext) {
  for (const std::string& node : nodes) {
    ASSIGN_OR_RETURN(const ListenAddress address, ListenAddress::Parse(node));
    const absl::Status safe =
        RequireProtected("connect to", address, is_plaintext);
    if (!safe.ok())
      return UsageError("--nodes: " + std::string(safe.message()));
  }
  return absl::OkStatus();
}

template <typename T, typename Set>
void SetIfGiven(const std::optional<T>& flag, Set set) {
  if (flag.has_value()) set(*flag);
}

// What says how a cluster is run needs one.
absl::Status CheckHasCluster(const v1::CoordinatorConfig& config) {
  if (config.cluster() || !config.nodes().empty()) return absl::OkStatus();
  const std::pair<bool, const char*> given[] = {
      {config.own_experts(), "own-experts"},
      {config.copies() > 1, "copies"},
      {!config.copy_budget().empty(), "copy-budget"},
      {config.rebalance_after_s() != 0, "rebalance-after-s"},
      {config.heartbeat_ms() != 0, "heartbeat-ms"},
      {config.gone_after_ms() != 0, "gone-after-ms"}};
  for (const auto& [is_given, flag] : given) {
    if (is_given) {
      return UsageError(absl::StrCat(
          "--", flag,
          " does nothing without nodes: ", "give --cluster or --nodes, too"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void CoordinatorFlags::AddTo(CLI::App& app) {
  const auto add = [&app](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kModelGroup);
  };
  add("--config", config_file_,
      "File of settings in text format; flags override it");
  add("--model", model_,
      "Model directory: config.json, index, shards (default: k3-nano, the "
      "small model that comes with deltafin)");
  add("--nodes", nodes_,
      "Expert nodes, host:port,... (default: the experts run in this process)");
  add("--spine", spine_,
      "Precision of the spine: bf16 (default), or int8 for half the memory");
  add("--device", device_,
      "Where the spine runs: cpu (default), torch-cpu, cuda, cuda:N, mps");
  add("--device-ram", device_ram_,
      "Most memory of the device for the spine, such as 80G: layers beyond it "
      "run on the host (default: all run on the device)");
  add("--kernel", kernel_,
      "Kernel target (default: the fastest here); changes no bit of the text");
  add("--threads", threads_, "Compute threads (default: one a core)");
  add("--prefill-chunk", prefill_chunk_,
      "Prompt tokens in one step (default: 512)");
  add("--ram", ram_,
      "Memory for experts in this process, such as 8G (default: what is left)");
  add("--expert-device", expert_device_,
      "Where this process computes experts: cpu (default), cuda, cuda:N or "
      "cuda:N,M; changes no bit");
  add("--expert-device-ram", expert_device_ram_,
      "Memory for experts on each card, such as 64G (default: what is free "
      "less 1G)");
  add("--spine-ram", spine_ram_,
      "Most memory for the spine, such as 64G; layers beyond it are read from "
      "disk for every token (default: what is there); changes no bit");
  add("--context", context_,
      "Tokens a sequence may reach, prompt included (default: 8192)");
  add("--prefix-cache", prefix_cache_,
      "Memory for states of ended requests, from which prompts that begin with "
      "the same text go on, such as 4G (default: a share; 0: none); changes no "
      "bit");
  add("--speculate", speculate_,
      "Guess tokens that probably follow and check them in one step: auto "
      "(default, where it saves time), off, force; changes no bit");
  add("--cache-dir", cache_dir_,
      "Where the int8 spine goes when the model folder is read-only (default: "
      "~/.cache/deltafin)");
  add("--layer-deadline-ms", layer_deadline_ms_,
      "Longest wait for a node's part of a layer (default: 300000)");
  add("--read-ahead", read_ahead_,
      "Tell nodes what the next layer will probably want: on (default), off; "
      "changes no bit");
  add("--hedge-budget", hedge_budget_,
      "Percent of slices that may be asked of a second node because the first "
      "is late (default: 0, none); changes no bit");
  add("--keepalive-ms", keepalive_ms_,
      "Within which a node that is gone is noticed (default: 5000)");
  AddCredentialsTo(app);
  app.add_option("--test-placement", test_placement_,
                 "Placement of experts drawn at random: random:SEED")
      ->group(kHidden);
  log_level_given_ = [parent = app.get_parent()] {
    return parent != nullptr && parent->count("--log-level") > 0;
  };
}

void CoordinatorFlags::AddCredentialsTo(CLI::App& app) {
  const auto add = [&app](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)->group(kSecurityGroup);
  };
  add("--cluster-token-file", cluster_token_file_,
      "File with the cluster's token (deltafin certs token FILE): TLS with all "
      "who have it, and nobody else");
  add("--tls-ca", tls_ca_, "Instead of a token: ca.crt of deltafin certs init");
  add("--tls-cert", tls_cert_,
      "This machine's certificate, of deltafin certs issue");
  add("--tls-key", tls_key_, "Its key");
}

void CoordinatorFlags::AddClusterTo(CLI::App& app) {
  with_cluster_ = true;
  const auto add = [&app](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kClusterGroup);
  };
  app.add_flag("--cluster", cluster_,
               "Let nodes join (deltafin-node --join); experts run there")
      ->group(kClusterGroup);
  app.add_flag("--own-experts", own_experts_,
               "With --cluster or --nodes: run experts in this process, too")
      ->group(kClusterGroup);
  add("--state", state_,
      "Folder that keeps the cluster's epoch and who is drained over restarts "
      "(default: none; epochs begin at the time of day)");
  add("--metrics", metrics_,
      "HOST:PORT of a page of metrics in Prometheus text format, GET /metrics; "
      "loopback only (default: none)");
  add("--copies", copies_,
      "Copies of every expert, on different nodes (default: 1)");
  add("--copy-budget", copy_budget_,
      "Most bytes a second that a node copies to its drive, and reads for "
      "copies of others, such as 100M (default: none)");
  add("--rebalance-after-s", rebalance_after_s_,
      "A node may be away for so long before others copy its share (default: "
      "300)");
  add("--heartbeat-ms", heartbeat_ms_,
      "Between two heartbeats of a node (default: 1000)");
  add("--gone-after-ms", gone_after_ms_,
      "Silence after which a node is no member (default: 5000)");
}

void CoordinatorFlags::ApplyTo(v1::CoordinatorConfig& config) const {
  SetIfGiven(model_, [&](const auto& v) { config.set_model(v); });
  if (nodes_.has_value()) {
    const std::vector<std::string> nodes = SplitNodes(*nodes_);
    config.mutable_nodes()->Assign(nodes.begin(), nodes.end());
  }
  SetIfGiven(spine_, [&](const auto& v) { config.set_spine(v); });
  SetIfGiven(device_, [&](const auto& v) { config.set_device(v); });
  SetIfGiven(device_ram_, [&](const auto& v) { config.set_device_ram(v); });
  SetIfGiven(kernel_, [&](const auto& v) { config.set_kernel(v); });
  SetIfGiven(threads_, [&](uint32_t v) { config.set_threads(v); });
  SetIfGiven(prefill_chunk_, [&](uint32_t v) { config.set_prefill_chunk(v); });
  SetIfGiven(ram_, [&](const auto& v) { config.set_ram(v); });
  SetIfGiven(expert_device_,
             [&](const auto& v) { config.set_expert_device(v); });
  SetIfGiven(expert_device_ram_,
             [&](const auto& v) { config.set_expert_device_ram(v); });
  SetIfGiven(spine_ram_, [&](const auto& v) { config.set_spine_ram(v); });
  SetIfGiven(context_, [&](uint32_t v) { config.set_context(v); });
  SetIfGiven(cache_dir_, [&](const auto& v) { config.set_cache_dir(v); });
  SetIfGiven(layer_deadline_ms_,
             [&](uint32_t v) { config.set_layer_deadline_ms(v); });
  SetIfGiven(read_ahead_, [&](const auto& v) { config.set_read_ahead(v); });
  SetIfGiven(prefix_cache_, [&](const auto& v) { config.set_prefix_cache(v); });
  SetIfGiven(speculate_, [&](const auto& v) { config.set_speculate(v); });
  SetIfGiven(cluster_token_file_,
             [&](const auto& v) { config.set_cluster_token_file(v); });
  SetIfGiven(tls_ca_, [&](const auto& v) { config.set_tls_ca(v); });
  SetIfGiven(tls_cert_, [&](const auto& v) { config.set_tls_cert(v); });
  SetIfGiven(tls_key_, [&](const auto& v) { config.set_tls_key(v); });
  SetIfGiven(cluster_, [&](bool v) { config.set_cluster(v); });
  SetIfGiven(own_experts_, [&](bool v) { config.set_own_experts(v); });
  SetIfGiven(state_, [&](const auto& v) { config.set_state(v); });
  SetIfGiven(metrics_, [&](const auto& v) { config.set_metrics(v); });
  SetIfGiven(heartbeat_ms_, [&](uint32_t v) { config.set_heartbeat_ms(v); });
  SetIfGiven(copies_, [&](uint32_t v) { config.set_copies(v); });
  SetIfGiven(copy_budget_, [&](const auto& v) { config.set_copy_budget(v); });
  SetIfGiven(rebalance_after_s_,
             [&](uint32_t v) { config.set_rebalance_after_s(v); });
  SetIfGiven(hedge_budget_, [&](uint32_t v) { config.set_hedge_budget(v); });
  SetIfGiven(keepalive_ms_, [&](uint32_t v) { config.set_keepalive_ms(v); });
  SetIfGiven(gone_after_ms_, [&](uint32_t v) { config.set_gone_after_ms(v); });
}

absl::StatusOr<v1::CoordinatorConfig> CoordinatorFlags::Config() const {
  v1::CoordinatorConfig config;
  ApplyTo(config);
  const absl::StatusOr<CoordinatorOptions> flags_alone =
      ParseCoordinatorOptions(config);
  if (!flags_alone.ok()) {
    return UsageError(std::string(flags_alone.status().message()));
  }
  if (config_file_.empty()) return config;
  v1::CoordinatorConfig merged;
  RETURN_IF_ERROR(ReadConfigFile(config_file_, &merged));
  RETURN_IF_ERROR(
      AddContext(ParseCoordinatorOptions(merged).status(), config_file_));
  if (!merged.log_level().empty() && !log_level_given_()) {
    RETURN_IF_ERROR(AddContext(SetLogLevel(merged.log_level()), config_file_));
  }
  ApplyTo(merged);
  return merged;
}

absl::StatusOr<CoordinatorOptions> CoordinatorFlags::Options() const {
  ASSIGN_OR_RETURN(const v1::CoordinatorConfig config, Config());
  if (with_cluster_) RETURN_IF_ERROR(CheckHasCluster(config));
  ASSIGN_OR_RETURN(CoordinatorOptions options, ParseCoordinatorOptions(config));
  const CredentialFiles files = CredentialFilesOf(config);
  if (const absl::Status status = files.Check(); !status.ok()) {
    return UsageError(std::string(status.message()));
  }
  RETURN_IF_ERROR(CheckNodes(options.nodes, !files.any()));
  ASSIGN_OR_RETURN(options.credentials, Credentials::Load(files, absl::Now()));
  if (!test_placement_.empty()) {
    ASSIGN_OR_RETURN(options.placement_seed,
                     ParsePlacementSeed(test_placement_));
  }
  if (options.model_dir.empty()) {
    ASSIGN_OR_RETURN(options.model_dir, DefaultModelDir());
  }
  ASSIGN_OR_RETURN(options.hub, HubAccessFor(options.model_dir));
  if (options.cache_dir.empty()) options.cache_dir = DefaultCacheDir();
  if (!with_cluster_) {
    options.cluster = false;
    options.own_experts = false;
    options.state_dir.clear();
  }
  return options;
}

}  // namespace deltafin
