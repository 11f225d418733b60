#include "coordinator/options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/memory_budget.h"
#include "common/net/listen_address.h"
#include "expert_node/device/device_choice.h"

namespace deltafin {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxSequences = 4096;
constexpr uint32_t kMaxQueued = 1 << 20;
constexpr uint32_t kMaxPrefillChunk = 65536;
constexpr uint32_t kDefaultHeartbeatMs = 1000;
constexpr uint32_t kMaxHeartbeatMs = 60000;
constexpr uint32_t kDefaultGoneAfterMs = 5000;
constexpr uint32_t kMaxGoneAfterMs = 600000;
constexpr uint32_t kMaxRebalanceAfterS = 86400;
// Less than a slice of a large model a minute is a mistake.
constexpr uint64_t kLeastCopyBudget = 64 << 10;
constexpr uint32_t kMaxHedgePercent = 100;
constexpr char kSomeExperts[] =
    "expected room for an expert at least, such as 8G; leave it out for what "
    "is left";

// Collects what is wrong, so that one run reports everything.
class FieldErrors {
 public:
  void Add(std::string_view field, std::string_view value,
           std::string_view accepted) {
    errors_.push_back(absl::StrCat(ToAbsl(field), ": '", ToAbsl(value),
                                   "': ", ToAbsl(accepted)));
  }
  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "; "));
  }

 private:
  static absl::string_view ToAbsl(std::string_view s) {
    return {s.data(), s.size()};
  }
  std::vector<std::string> errors_;
};

bool IsAllOf(std::string_view text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [also](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           also.find(c) != std::string_view::npos;
  });
}

// A name, an IPv4 address, or an IPv6 one in brackets.
bool IsHost(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) {
    return IsAllOf(host.substr(1, host.size() - 2), ":.%");
  }
  return IsAllOf(host, ".-_");
}

// "host:port" with a port in [1, 65535].
bool IsAddress(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view port = address.substr(colon + 1);
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), number);
  return IsHost(address.substr(0, colon)) && error == std::errc() &&
         end == port.data() + port.size() && number >= 1 && number <= 65535;
}

void ReadNodes(const v1::CoordinatorConfig& config, CoordinatorOptions& options,
               FieldErrors& errors) {
  for (const std::string& node : config.nodes()) {
    if (!IsAddress(node)) errors.Add("nodes", node, "expected host:port");
    options.nodes.push_back(node);
  }
}

// "cpu", "torch-cpu", "mps", "cuda" or a card by its number.
bool IsDevice(std::string_view device) {
  constexpr std::string_view kCard = "cuda:";
  if (device.starts_with(kCard)) {
    const std::string_view number = device.substr(kCard.size());
    return !number.empty() && number.size() <= 2 &&
           std::ranges::all_of(number, [](char c) {
             return absl::ascii_isdigit(static_cast<unsigned char>(c));
           });
  }
  return device == "cpu" || device == "torch-cpu" || device == "cuda" ||
         device == "mps";
}

void ReadSpine(const v1::CoordinatorConfig& config, CoordinatorOptions& options,
               FieldErrors& errors) {
  if (config.spine() == "int8") {
    options.precision = SpinePrecision::kInt8;
  } else if (!config.spine().empty() && config.spine() != "bf16") {
    errors.Add("spine", config.spine(), "expected bf16 or int8");
  }
  if (config.device().empty()) return;
  options.device = config.device();
  if (!IsDevice(options.device)) {
    errors.Add("device", options.device,
               "expected cpu, torch-cpu, cuda, cuda:N or mps");
  }
}

void ReadKernel(const v1::CoordinatorConfig& config,
                CoordinatorOptions& options, FieldErrors& errors) {
  options.kernel = config.kernel();
  std::string why;
  if (!options.kernel.empty() && FindKernel(options.kernel, &why) == nullptr) {
    errors.Add("kernel", options.kernel, why);
  }
}

// A count that is unset (0) or within [1, most].
template <typename T>
void ReadCount(std::string_view field, uint32_t value, uint32_t most, T& into,
               FieldErrors& errors) {
  if (value > most) {
    errors.Add(field, std::to_string(value),
               "expected at most " + std::to_string(most));
  } else if (value > 0) {
    into = static_cast<T>(value);
  }
}

void ReadRam(const v1::CoordinatorConfig& config, CoordinatorOptions& options,
             FieldErrors& errors) {
  const auto read = [&errors](std::string_view field, const std::string& text,
                              std::optional<uint64_t>& into) {
    if (text.empty()) return;
    const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
    if (bytes.ok()) {
      into = *bytes;
    } else {
      errors.Add(field, text, "expected a size such as 8G or 512M");
    }
  };
  read("ram", config.ram(), options.ram_bytes);
  if (options.ram_bytes == 0) {
    errors.Add("ram", config.ram(), kSomeExperts);
  }
  read("spine_ram", config.spine_ram(), options.spine_ram_bytes);
  read("device_ram", config.device_ram(), options.device_ram_bytes);
  if (options.device_ram_bytes && options.device == "cpu") {
    errors.Add("device_ram", config.device_ram(),
               "it is for another device than cpu");
  }
  if (options.spine_ram_bytes && options.device != "cpu" &&
      !options.device_ram_bytes) {
    errors.Add("spine_ram", config.spine_ram(),
               "layers are read for every step on the host only: device cpu, "
               "or device_ram");
  }
}

void ReadExpertDevice(const v1::CoordinatorConfig& config,
                      CoordinatorOptions& options, FieldErrors& errors) {
  absl::StatusOr<std::vector<int>> cards = ParseDevice(config.expert_device());
  if (cards.ok()) {
    options.expert_cards = *std::move(cards);
  } else {
    errors.Add("expert_device", config.expert_device(),
               "expected cpu, cuda, cuda:N or cuda:N,M");
  }
  if (config.expert_device_ram().empty()) return;
  const absl::StatusOr<uint64_t> bytes =
      ParseByteSize(config.expert_device_ram());
  if (bytes.ok()) {
    options.expert_card_ram_bytes = *bytes;
  } else {
    errors.Add("expert_device_ram", config.expert_device_ram(),
               "expected a size such as 64G");
  }
  if (options.expert_cards.empty()) {
    errors.Add("expert_device_ram", config.expert_device_ram(),
               "is for an expert_device other than cpu");
  }
}

void ReadReuse(const v1::CoordinatorConfig& config, CoordinatorOptions& options,
               FieldErrors& errors) {
  if (!config.prefix_cache().empty()) {
    const auto bytes = ParseByteSize(config.prefix_cache());
    if (bytes.ok()) {
      options.prefix_cache_bytes = *bytes;
    } else {
      errors.Add("prefix_cache", config.prefix_cache(),
                 "expected a size such as 4G, or 0");
    }
  }
  const auto mode = ParseSpeculationMode(config.speculate());
  if (mode.has_value()) {
    options.speculation = *mode;
  } else if (!config.speculate().empty()) {
    errors.Add("speculate", config.speculate(), "expected off, auto or force");
  }
}

void ReadCluster(const v1::CoordinatorConfig& config,
                 CoordinatorOptions& options, FieldErrors& errors) {
  options.cluster = config.cluster();
  options.own_experts = config.own_experts();
  options.state_dir = config.state();
  uint32_t heartbeat_ms = kDefaultHeartbeatMs;
  ReadCount("heartbeat_ms", config.heartbeat_ms(), kMaxHeartbeatMs,
            heartbeat_ms, errors);
  uint32_t gone_after_ms = std::max(kDefaultGoneAfterMs, 5 * heartbeat_ms);
  ReadCount("gone_after_ms", config.gone_after_ms(), kMaxGoneAfterMs,
            gone_after_ms, errors);
  if (gone_after_ms < 3 * heartbeat_ms) {
    errors.Add("gone_after_ms", std::to_string(gone_after_ms),
               "expected at least three heartbeats, so that a late one is no "
               "end");
  }
  options.limits.heartbeat = absl::Milliseconds(heartbeat_ms);
  options.limits.gone_after = absl::Milliseconds(gone_after_ms);
}

void ReadCopies(const v1::CoordinatorConfig& config,
                CoordinatorOptions& options, FieldErrors& errors) {
  ReadCount("copies", config.copies(), kMaxCopies, options.copies, errors);
  uint32_t rebalance_after_s = 0;
  ReadCount("rebalance_after_s", config.rebalance_after_s(),
            kMaxRebalanceAfterS, rebalance_after_s, errors);
  if (rebalance_after_s > 0) {
    options.rebalance_after = absl::Seconds(rebalance_after_s);
  }
  if (config.copy_budget().empty()) return;
  const absl::StatusOr<uint64_t> rate = ParseByteSize(config.copy_budget());
  if (rate.ok() && *rate >= kLeastCopyBudget) {
    options.copy_bytes_per_second = *rate;
  } else {
    errors.Add("copy_budget", config.copy_budget(),
               "expected bytes a second, 64K or more, such as 100M");
  }
}

void ReadLinks(const v1::CoordinatorConfig& config, CoordinatorOptions& options,
               FieldErrors& errors) {
  uint32_t hedge_percent = 0;
  ReadCount("hedge_budget", config.hedge_budget(), kMaxHedgePercent,
            hedge_percent, errors);
  options.hedge_budget = 0.01 * hedge_percent;
  if (config.keepalive_ms() == 0) return;
  options.keepalive_bound = absl::Milliseconds(config.keepalive_ms());
  if (options.keepalive_bound < kLeastKeepaliveBound ||
      options.keepalive_bound > kMostKeepaliveBound) {
    errors.Add("keepalive_ms", std::to_string(config.keepalive_ms()),
               absl::StrCat(
                   "expected ", absl::ToInt64Milliseconds(kLeastKeepaliveBound),
                   " to ", absl::ToInt64Milliseconds(kMostKeepaliveBound)));
  }
}

}  // namespace

absl::StatusOr<CoordinatorOptions> ParseCoordinatorOptions(
    const v1::CoordinatorConfig& config) {
  CoordinatorOptions options;
  FieldErrors errors;
  options.model_dir = config.model();
  ReadNodes(config, options, errors);
  ReadCluster(config, options, errors);
  ReadCopies(config, options, errors);
  ReadLinks(config, options, errors);
  ReadSpine(config, options, errors);
  ReadKernel(config, options, errors);
  ReadRam(config, options, errors);
  ReadExpertDevice(config, options, errors);
  ReadReuse(config, options, errors);
  ReadCount("threads", config.threads(), kMaxThreads, options.num_threads,
            errors);
  ReadCount("prefill_chunk", config.prefill_chunk(), kMaxPrefillChunk,
            options.prefill_chunk, errors);
  ReadCount("context", config.context(), UINT32_MAX, options.context_tokens,
            errors);
  ReadCount("max_sequences", config.max_sequences(), kMaxSequences,
            options.max_sequences, errors);
  ReadCount("max_queued", config.max_queued(), kMaxQueued, options.max_queued,
            errors);
  if (config.layer_deadline_ms() > 0) {
    options.layer_deadline = absl::Milliseconds(config.layer_deadline_ms());
  }
  if (config.read_ahead() == "off") {
    options.read_ahead = false;
  } else if (!config.read_ahead().empty() && config.read_ahead() != "on") {
    errors.Add("read_ahead", config.read_ahead(), "expected on or off");
  }
  options.cache_dir = config.cache_dir();
  options.metrics_listen = config.metrics();
  if (!config.metrics().empty() &&
      !ListenAddress::Parse(config.metrics()).ok()) {
    errors.Add("metrics", config.metrics(), "expected host:port");
  }
  const absl::Status status = errors.status();
  if (!status.ok()) return status;
  return options;
}

}  // namespace deltafin
