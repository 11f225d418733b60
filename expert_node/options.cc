#include "expert_node/options.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/memory_budget.h"
#include "common/base/random_id.h"
#include "common/net/credentials.h"
#include "common/net/listen_address.h"
#include "common/net/metrics.h"
#include "expert_node/device/device_choice.h"
#include "spdlog/fmt/fmt.h"
#include "spdlog/fmt/ranges.h"

namespace deltafin {
namespace {

constexpr uint32_t kMaxThreads = 1024;

// Collects what is wrong with each field.
class FieldErrors {
 public:
  void Add(std::string_view field, std::string_view message) {
    errors_.push_back(fmt::format("{}: {}", field, message));
  }
  void Add(std::string_view field, const absl::Status& status) {
    Add(field,
        std::string_view(status.message().data(), status.message().size()));
  }
  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}", fmt::join(errors_, "\n")));
  }

 private:
  std::vector<std::string> errors_;
};

void CheckListen(std::string_view field, const std::string& listen,
                 bool is_plaintext, FieldErrors& errors) {
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(listen);
  if (!address.ok()) return errors.Add(field, address.status());
  const absl::Status safe =
      RequireProtected("listen on", *address, is_plaintext);
  if (!safe.ok()) errors.Add(field, safe);
}

// HOST:PORT that this node or others connect to; may be empty.
void CheckPeer(std::string_view field, const std::string& text,
               FieldErrors& errors) {
  if (text.empty()) return;
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
  if (!address.ok()) return errors.Add(field, address.status());
  if (address->port == 0) {
    errors.Add(field, fmt::format("'{}': want HOST:PORT with a port", text));
  }
}

void CheckJoin(const v1::NodeConfig& config, FieldErrors& errors) {
  CheckPeer("join", config.join(), errors);
  const absl::StatusOr<ListenAddress> address =
      ListenAddress::Parse(config.join());
  if (!address.ok()) return;
  const absl::Status safe = RequireProtected("connect to", *address,
                                             !CredentialFilesOf(config).any());
  if (!safe.ok()) errors.Add("join", safe);
}

// A size that may be left out.
void ReadSize(std::string_view field, const std::string& text,
              FieldErrors& errors, uint64_t* bytes) {
  if (text.empty()) return;
  const absl::StatusOr<uint64_t> size = ParseByteSize(text);
  if (!size.ok()) return errors.Add(field, size.status());
  *bytes = *size;
}

// The model is a folder; or there is none, or a repository, and the node holds
// its share in its data folder.
void ReadModel(const v1::NodeConfig& config, FieldErrors& errors,
               ExpertNodeOptions* options) {
  ShareOptions share;
  ReadSize("quota", config.quota(), errors, &share.quota_bytes);
  ReadSize("reserve", config.reserve(), errors, &share.reserve_bytes);
  options->model_dir = config.model();
  std::error_code error;
  const bool is_folder = std::filesystem::exists(config.model(), error);
  const absl::StatusOr<ModelRevision> repository =
      ParseModelRevision(config.model());
  const bool has_share = !config.join().empty() && !is_folder &&
                         (config.model().empty() || repository.ok());
  if (!has_share) {
    if (config.model().empty()) {
      errors.Add("model",
                 "missing, want a model directory; a node that joins "
                 "a coordinator learns the model from it");
    }
    if (!config.quota().empty() || !config.reserve().empty()) {
      errors.Add("quota and reserve",
                 "are for the share of a node that joins without a model "
                 "directory");
    }
    return;
  }
  if (!config.model().empty()) share.repository = *repository;
  share.experts_folder = config.data() + "/experts";
  options->model_dir = config.data() + "/model";
  options->share = std::move(share);
}

void ReadDevice(const v1::NodeConfig& config, FieldErrors& errors,
                ExpertNodeOptions* options) {
  ReadSize("device_ram", config.device_ram(), errors, &options->card_ram_bytes);
  absl::StatusOr<std::vector<int>> cards = ParseDevice(config.device());
  if (!cards.ok()) return errors.Add("device", cards.status());
  options->cards = *std::move(cards);
  if (!config.device_ram().empty() && options->cards.empty()) {
    errors.Add("device_ram", "is for a device other than cpu");
  }
}

}  // namespace

absl::StatusOr<NodeJoinOptions> JoinOptionsFromConfig(
    const v1::NodeConfig& config) {
  FieldErrors errors;
  CheckJoin(config, errors);
  CheckPeer("advertise", config.advertise(), errors);
  if (!config.join().empty() && config.data().empty()) {
    errors.Add("data", "missing, want a folder that keeps the node's id");
  }
  if (!config.advertise().empty() && config.join().empty()) {
    errors.Add("advertise", "tells a coordinator, and join names none");
  }
  if (absl::Status status = errors.status(); !status.ok()) return status;
  return NodeJoinOptions{
      config.join(), config.data(), config.advertise(), {}, RandomNumber()};
}

absl::StatusOr<ExpertNodeOptions> OptionsFromConfig(
    const v1::NodeConfig& config) {
  FieldErrors errors;
  ExpertNodeOptions options;
  ReadModel(config, errors, &options);
  options.listen = config.listen();
  if (config.listen().empty()) {
    errors.Add("listen", "missing, want HOST:PORT");
  } else {
    CheckListen("listen", config.listen(), !CredentialFilesOf(config).any(),
                errors);
  }
  if (!config.metrics().empty()) {
    const auto address = MetricsAddress(config.metrics());
    if (!address.ok()) errors.Add("metrics", address.status());
  }
  if (const absl::Status files = CredentialFilesOf(config).Check();
      !files.ok()) {
    errors.Add("credentials", files);
  }
  ReadSize("ram", config.ram(), errors, &options.ram_bytes);
  if (!config.ram().empty() && options.ram_bytes == 0) {
    errors.Add("ram",
               fmt::format("'{}', want room for an expert at least, such "
                           "as 8G; leave it out for all experts",
                           config.ram()));
  }
  ReadDevice(config, errors, &options);
  if (config.threads() > kMaxThreads) {
    errors.Add("threads", fmt::format("{}, want 0 (one per core) to {}",
                                      config.threads(), kMaxThreads));
  }
  options.num_threads = static_cast<int>(config.threads());
  if (config.keepalive_ms() > 0) {
    options.keepalive_bound = absl::Milliseconds(config.keepalive_ms());
  }
  if (options.keepalive_bound < kLeastKeepaliveBound ||
      options.keepalive_bound > kMostKeepaliveBound) {
    errors.Add("keepalive_ms",
               fmt::format("{}, want {} to {}", config.keepalive_ms(),
                           absl::ToInt64Milliseconds(kLeastKeepaliveBound),
                           absl::ToInt64Milliseconds(kMostKeepaliveBound)));
  }
  if (!config.kernel().empty()) {
    std::string why;
    options.kernel = FindKernel(config.kernel(), &why);
    if (options.kernel == nullptr) errors.Add("kernel", why);
  }
  if (absl::Status status = errors.status(); !status.ok()) return status;
  return options;
}

}  // namespace deltafin
