#include "expert_node/share_membership.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "expert_node/holdings.h"
#include "expert_node/model_files_client.h"

namespace deltafin {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLastRetry = absl::Seconds(5);

// The coordinator may be there a moment later.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

absl::Status FetchWaiting(const ModelFilesOptions& files) {
  absl::Duration retry = kFirstRetry;
  bool is_logged = false;
  while (true) {
    const absl::Status status = FetchModelFiles(files);
    if (!MayPass(status)) return status;
    if (KnownModel(files.folder, files.with_shards).ok()) {
      spdlog::warn("{}; going on with the model of {}", status.ToString(),
                   files.folder);
      return absl::OkStatus();
    }
    if (!is_logged) {
      spdlog::warn("coordinator {} does not tell its model: {}; trying on",
                   files.coordinator, std::string(status.message()));
      is_logged = true;
    }
    absl::SleepFor(retry);
    retry = std::min(2 * retry, kLastRetry);
  }
}

}  // namespace

absl::Status LearnModel(const NodeJoinOptions& join,
                        ExpertNodeOptions* options) {
  ModelFilesOptions files;
  files.coordinator = join.coordinator;
  files.credentials = join.credentials;
  files.folder = options->model_dir;
  files.with_shards = options->share->repository.has_value();
  RETURN_IF_ERROR(FetchWaiting(files));
  ASSIGN_OR_RETURN(const Manifest manifest,
                   KnownModel(files.folder, files.with_shards));
  options->manifest_digest = manifest.Digest();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerClient>> ReachPeers(
    const NodeJoinOptions& join, const ExpertNodeOptions& options) {
  ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Load(options.model_dir));
  PeerClientOptions peers;
  peers.coordinator = join.coordinator;
  peers.credentials = join.credentials;
  peers.node_id = options.node_id;
  peers.incarnation = join.incarnation;
  peers.manifest_digest = options.manifest_digest;
  peers.shape = spec.expert_shape();
  peers.keepalive_bound = options.keepalive_bound;
  return std::make_unique<PeerClient>(std::move(peers));
}

std::unique_ptr<ShareFiller> FillShare(ExpertNode& node, PeerClient& peers,
                                       CoordinatorClient& coordinator) {
  const RecordStoreStats held = node.share()->records().stats();
  const RecordModel& model = node.share()->records().model();
  const double all = static_cast<double>(model.shape.num_slices()) *
                     (model.num_layers - model.first_moe_layer) *
                     model.num_experts;
  spdlog::info(
      "{} holds {} slices of experts, {:.1f} % of the model; still filling "
      "until it holds its share",
      node.share()->records().folder(), held.held_slices,
      100 * static_cast<double>(held.held_slices) / all);
  ShareFillerOptions filler;
  const bool has_source = node.share()->has_source();
  filler.ask = [&peers, has_source](uint32_t max_orders) {
    return peers.NextCopies(max_orders, has_source);
  };
  filler.wait_until_idle = [&node](absl::Time deadline) {
    node.WaitUntilIdle(deadline);
  };
  filler.tell_holdings = [&coordinator] { coordinator.Hurry(); };
  return std::make_unique<ShareFiller>(*node.share(), std::move(filler));
}

ShareReport WholeShareOf(const ExpertNode& node) {
  ShareReport report;
  report.state = ShareReport::State::kComplete;
  report.held_slices = CountHeldSlices(node.spec(), node.experts());
  return report;
}

}  // namespace deltafin
