#include "expert_node/node_flags.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/net/config_file.h"
#include "common/net/exit_code.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kDescription[] =
    "Serves the routed experts of a model to coordinators: holds them in "
    "memory, reads\nthem from the model's released shards, computes their "
    "slices where the bytes are.";

constexpr char kFooter[] = R"(
Start one on every machine that has the model's files, then name them to the
coordinator:
  deltafin-node --model /models/Kimi-K3 --listen 127.0.0.1:7400 --ram 64G
  deltafin run --model /models/Kimi-K3 --nodes 127.0.0.1:7400 --prompt "Hello"

or let them join a coordinator that runs:
  deltafin serve --model /models/Kimi-K3 --cluster
  deltafin-node --listen 127.0.0.1:7400 --join 127.0.0.1:8500
      --data /var/lib/deltafin

Such a node fills its share of the experts from the other nodes while it works.

When it is ready it prints one line, "listening on HOST:PORT"; port 0 takes a
free one. Beyond the loopback interface it needs credentials
(docs/security.md). SIGTERM, SIGHUP or Ctrl-C finishes
what runs, then ends; a second one ends at once. Any number
of nodes, threads and kernels give the same bits.

Configuration file, in protobuf text format, each field a flag's name:
  model: "/models/Kimi-K3"  listen: "127.0.0.1:7400"  ram: "64G"  threads: 8

Exit codes: 0 ok, 1 failed, 64 wrong flags, 65 bad input (model, configuration),
69 unavailable (port in use, not enough memory), 128 + N ended by signal N
before it was ready.)";

constexpr int kMaxMeasureSeconds = 3600;

struct Flags {
  std::string config;
  std::optional<std::string> model, listen, ram, kernel, log_level, cache_dir;
  std::optional<std::string> join, data, advertise, metrics, quota, reserve;
  std::optional<std::string> cluster_token_file, tls_ca, tls_cert, tls_key;
  std::optional<std::string> device, device_ram;
  std::optional<uint32_t> threads, keepalive_ms;
  std::optional<std::string> measure_disk;  // seconds, "true": none given
  bool rebuild_ledger = false;
  std::string test_reply_delay;            // MAX:SEED
  std::optional<double> test_kernel_rate;  // GB/s
  std::optional<uint32_t> test_fail_reply;
};

std::string KernelNames() {
  std::string names;
  for (const KernelTarget* kernel : CompiledKernels()) {
    names += (names.empty() ? "" : ", ") + std::string(kernel->name);
  }
  return names;
}

void AddCredentialFlags(CLI::App& app, Flags& flags) {
  app.add_option("--cluster-token-file", flags.cluster_token_file,
                 "File with the cluster's token (deltafin certs token FILE): "
                 "TLS with all who have it, and nobody else");
  app.add_option("--tls-ca", flags.tls_ca,
                 "Instead of a token: ca.crt of deltafin certs init");
  app.add_option("--tls-cert", flags.tls_cert,
                 "This machine's certificate, of deltafin certs issue");
  app.add_option("--tls-key", flags.tls_key, "Its key");
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", "deltafin-node " DELTAFIN_VERSION);
  app.add_option(
      "--model", flags.model,
      "Model directory: released files, or an installed model. With "
      "--join it may be left out: the node learns the model from the "
      "coordinator and holds its share of it in --data; or "
      "OWNER/NAME[@REVISION], a repository that it fetches from what "
      "no other node has");
  app.add_option(
      "--listen", flags.listen,
      "HOST:PORT to serve on; beyond loopback with credentials only");
  app.add_option("--join", flags.join,
                 "HOST:PORT of the coordinator whose cluster to join (deltafin "
                 "serve --cluster)");
  app.add_option("--data", flags.data,
                 "Folder that keeps the node's id and its share of the experts "
                 "between starts; one process has it. Required with --join");
  app.add_option("--quota", flags.quota,
                 "Most bytes of experts that the share takes, as 800G. "
                 "Default: no bound");
  app.add_option("--reserve", flags.reserve,
                 "Bytes of the drive left to others. Default: 1G");
  app.add_option("--advertise", flags.advertise,
                 "HOST:PORT where the coordinator reaches this node. Default: "
                 "where it listens");
  AddCredentialFlags(app, flags);
  app.add_option("--metrics", flags.metrics,
                 "HOST:PORT of a page of metrics in Prometheus text format, "
                 "GET /metrics; loopback only. Default: none");
  app.add_option("--measure-disk", flags.measure_disk,
                 "Measure for SECONDS (default 60) how fast the model's drive "
                 "reads, keep the result in --data, and end")
      ->expected(0, 1)
      ->type_name("[SECONDS]");
  app.add_flag("--rebuild-ledger", flags.rebuild_ledger,
               "Make the ledger of heat and quota anew from the index of what "
               "is on the drive, and end");
  app.add_option("--ram", flags.ram,
                 "Memory for experts, as 64G or 512M. Default: all experts, at "
                 "most half of what is free");
  app.add_option("--threads", flags.threads,
                 "Compute threads. Default: one per core");
  app.add_option(
      "--kernel", flags.kernel,
      "Instruction set: " + KernelNames() + ". Default: the fastest here");
  app.add_option("--device", flags.device,
                 "Where experts are computed: cpu (default), cuda, cuda:N or "
                 "cuda:N,M. A card that cannot be used is left out");
  app.add_option("--device-ram", flags.device_ram,
                 "Memory for experts on each card, as 64G. Default: what is "
                 "free less 1G, at most all experts");
  app.add_option("--keepalive-ms", flags.keepalive_ms,
                 "Within which a coordinator that is gone is noticed. "
                 "Default: 5000");
  app.add_option("--config", flags.config,
                 "Configuration file; flags override its fields");
  app.add_option("--cache-dir", flags.cache_dir,
                 "Where file digests are kept, so that the model is hashed "
                 "once. Default: ~/.cache/deltafin");
  app.add_option("--log-level", flags.log_level,
                 "trace, debug, info, warn, error or off. Default: info");
  app.add_option(
         "--test-reply-delay-us", flags.test_reply_delay,
         "For tests: hold replies back up to MAX us at random, MAX:SEED")
      ->group("");  // not in --help
  app.add_option("--test-kernel-rate", flags.test_kernel_rate,
                 "For tests: tell the coordinator this rate of the kernel, in "
                 "GB/s, without measuring")
      ->check(CLI::Range(0.001, 1e6))
      ->group("");
  app.add_option("--test-fail-reply", flags.test_fail_reply,
                 "For tests: compute each N-th part and answer with an error")
      ->check(CLI::Range(1, 1'000'000))
      ->group("");
}

void RefuseEmptyValues(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& value) {
        return value.empty() ? std::string(
                                   "the value is empty; give one, or "
                                   "leave the flag out")
                             : std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(not_empty);
  }
}

std::string DefaultCacheDir() {
  const char* cache_home = std::getenv("XDG_CACHE_HOME");
  if (cache_home != nullptr && *cache_home != '\0') {
    return std::string(cache_home) + "/deltafin";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.cache/deltafin";
}

void Override(const Flags& flags, v1::NodeConfig& config) {
  if (flags.model) config.set_model(*flags.model);
  if (flags.listen) config.set_listen(*flags.listen);
  if (flags.ram) config.set_ram(*flags.ram);
  if (flags.device) config.set_device(*flags.device);
  if (flags.device_ram) config.set_device_ram(*flags.device_ram);
  if (flags.threads) config.set_threads(*flags.threads);
  if (flags.keepalive_ms) config.set_keepalive_ms(*flags.keepalive_ms);
  if (flags.kernel) config.set_kernel(*flags.kernel);
  if (flags.log_level) config.set_log_level(*flags.log_level);
  if (flags.cache_dir) config.set_cache_dir(*flags.cache_dir);
  if (flags.join) config.set_join(*flags.join);
  if (flags.data) config.set_data(*flags.data);
  if (flags.advertise) config.set_advertise(*flags.advertise);
  if (flags.quota) config.set_quota(*flags.quota);
  if (flags.reserve) config.set_reserve(*flags.reserve);
  if (flags.cluster_token_file) {
    config.set_cluster_token_file(*flags.cluster_token_file);
  }
  if (flags.tls_ca) config.set_tls_ca(*flags.tls_ca);
  if (flags.tls_cert) config.set_tls_cert(*flags.tls_cert);
  if (flags.tls_key) config.set_tls_key(*flags.tls_key);
  if (flags.metrics) config.set_metrics(*flags.metrics);
  if (config.log_level().empty()) config.set_log_level("info");
  if (config.cache_dir().empty()) config.set_cache_dir(DefaultCacheDir());
}

NodeCommand Refuse(int exit_code, const absl::Status& status) {
  const std::string message(status.message());
  std::fprintf(stderr, "deltafin-node: %s\n", message.c_str());
  NodeCommand command;
  command.ends_at_once = true;
  command.exit_code = exit_code;
  return command;
}

absl::StatusOr<std::function<absl::Duration()>> ParseReplyDelay(
    const std::string& text) {
  unsigned max_us = 0;
  unsigned long long seed = 0;
  if (std::sscanf(text.c_str(), "%u:%llu", &max_us, &seed) != 2) {
    return absl::InvalidArgumentError(
        fmt::format("--test-reply-delay-us: '{}', want MAX:SEED", text));
  }
  return RandomReplyDelay(max_us, seed);
}

absl::StatusOr<absl::Duration> ParseMeasureDisk(const Flags& flags) {
  if (!flags.measure_disk) return absl::ZeroDuration();
  if (*flags.measure_disk == "true") return absl::Seconds(60);
  int seconds = 0;
  const std::string& text = *flags.measure_disk;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (error == std::errc() && stop == end && seconds >= 1 &&
      seconds <= kMaxMeasureSeconds) {
    return absl::Seconds(seconds);
  }
  return absl::InvalidArgumentError(fmt::format(
      "--measure-disk: '{}', want seconds, 1 to {}", text, kMaxMeasureSeconds));
}

std::function<absl::Status()> FailEach(uint32_t nth) {
  auto count = std::make_shared<std::atomic<uint32_t>>(0);
  return [nth, count] {
    return ++*count % nth == 0
               ? absl::DataLossError("an error that a test asked for")
               : absl::OkStatus();
  };
}

NodeCommand CommandFrom(const Flags& flags) {
  v1::NodeConfig config;
  if (!flags.config.empty()) {
    const absl::Status status = ReadConfigFile(flags.config, &config);
    if (!status.ok()) return Refuse(kExitBadInput, status);
  }
  Override(flags, config);
  absl::StatusOr<absl::Duration> measure_disk = ParseMeasureDisk(flags);
  if (!measure_disk.ok()) return Refuse(kExitUsage, measure_disk.status());
  const bool serves =
      *measure_disk == absl::ZeroDuration() && !flags.rebuild_ledger;
  if (!serves && config.listen().empty()) config.set_listen("127.0.0.1:0");
  absl::StatusOr<ExpertNodeOptions> options = OptionsFromConfig(config);
  if (!options.ok()) return Refuse(kExitUsage, options.status());
  absl::StatusOr<NodeJoinOptions> join = JoinOptionsFromConfig(config);
  if (!join.ok()) return Refuse(kExitUsage, join.status());
  NodeCommand command;
  command.options = *std::move(options);
  command.join = *std::move(join);
  absl::StatusOr<Credentials> credentials =
      Credentials::Load(CredentialFilesOf(config), absl::Now());
  if (!credentials.ok()) return Refuse(kExitBadInput, credentials.status());
  command.options.credentials = *credentials;
  command.join.credentials = *std::move(credentials);
  command.measure_disk = *measure_disk;
  command.rebuild_ledger = flags.rebuild_ledger;
  command.metrics = config.metrics();
  command.log_level = config.log_level();
  if (!config.cache_dir().empty()) {
    command.options.digest_cache = config.cache_dir() + "/digests";
  }
  if (!flags.test_reply_delay.empty()) {
    auto delay = ParseReplyDelay(flags.test_reply_delay);
    if (!delay.ok()) return Refuse(kExitUsage, delay.status());
    command.options.reply_delay = *std::move(delay);
  }
  command.options.kernel_rate = 1e9 * flags.test_kernel_rate.value_or(0);
  if (flags.test_fail_reply) {
    command.options.reply_error = FailEach(*flags.test_fail_reply);
  }
  return command;
}

}  // namespace

NodeCommand ParseNodeCommand(int argc, char** argv) {
  CLI::App app(kDescription);
  app.footer(kFooter);
  Flags flags;
  AddFlags(app, flags);
  RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return Refuse(kExitUsage, absl::InvalidArgumentError(fmt::format(
                                    "{}; --help tells more", error.what())));
    }
    NodeCommand command;
    command.ends_at_once = true;
    command.exit_code = app.exit(error);  // prints help or version
    return command;
  }
  return CommandFrom(flags);
}

std::function<absl::Duration()> RandomReplyDelay(uint32_t max_us,
                                                 uint64_t seed) {
  struct Source {
    Mutex mutex;
    std::mt19937_64 random ABSL_GUARDED_BY(mutex);
  };
  auto source = std::make_shared<Source>();
  source->random.seed(seed);
  return [source, max_us] {
    MutexLock lock(source->mutex);
    return absl::Microseconds(source->random() % (uint64_t{max_us} + 1));
  };
}

}  // namespace deltafin
