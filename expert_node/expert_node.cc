#include "expert_node/expert_node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/manifest.h"
#include "common/base/memory_budget.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "expert_node/device/cuda_expert_card.h"
#include "expert_node/kernel_rate.h"
#include "expert_node/storage/installed_experts.h"
#include "expert_node/storage/local_store.h"
#include "expert_node/storage/missing_experts_notice.h"
#include "expert_node/storage/repository_source.h"
#include "expert_node/storage_service.h"
#include "proto/protocol_version.h"

namespace deltafin {
namespace {

constexpr absl::Duration kKernelMeasurement = absl::Milliseconds(50);
// Best for all sizes of memory in docs/performance.md; a few times more or less
// changes little.
constexpr double kHeatHalfLifeTokens = 100;

double HeatHalfLife(const ModelSpec& spec) {
  return kHeatHalfLifeTokens * spec.num_moe_layers();
}

uint64_t AllExpertsBytes(const ModelSpec& spec) {
  const ExpertShape shape = spec.expert_shape();
  const uint64_t expert_bytes =
      ExpertCache::SlotBytes(shape.slice_offset(1)) * shape.num_slices();
  return expert_bytes * spec.num_experts * spec.num_moe_layers();
}

// The tier's size: as asked for, or by default, never more than all experts.
absl::StatusOr<uint64_t> TierBytes(const ExpertNodeOptions& options,
                                   const ModelSpec& spec) {
  ASSIGN_OR_RETURN(const uint64_t available, AvailableMemory());
  const uint64_t all = AllExpertsBytes(spec);
  if (options.ram_bytes == 0) return std::min(all, available / 2);
  const uint64_t bytes = std::min(all, options.ram_bytes);
  MemoryBudget budget(available);
  budget.Add("expert tier (--ram)", bytes);
  RETURN_IF_ERROR(budget.Check());
  return bytes;
}

absl::Status FillDigest(ExpertNodeOptions& options) {
  if (!options.manifest_digest.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(options.model_dir, options.digest_cache,
                                       options.progress));
  options.manifest_digest = manifest.Digest();
  return absl::OkStatus();
}

struct OpenedExperts {
  std::unique_ptr<ExpertStore> store;
  InstalledExperts* installed = nullptr;  // the store, where it is one
};

// Released shards are looked through before they are hashed; an installed model
// knows its digest.
absl::StatusOr<OpenedExperts> OpenExperts(const ModelSpec& spec,
                                          ReadRateMeter* meter,
                                          ExpertNodeOptions& options) {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(options.model_dir));
  OpenedExperts opened;
  if (layout == ModelLayout::kReleased) {
    ASSIGN_OR_RETURN(opened.store,
                     LocalStore::Open(options.model_dir, spec, meter));
    RETURN_IF_ERROR(FillDigest(options));
    return opened;
  }
  RETURN_IF_ERROR(FillDigest(options));
  ASSIGN_OR_RETURN(
      std::unique_ptr<InstalledExperts> installed,
      InstalledExperts::Open(options.model_dir, spec, options.manifest_digest,
                             options.hub, meter));
  opened.installed = installed.get();
  opened.store = std::move(installed);
  return opened;
}

KeptExperts KeptBy(InstalledExperts* installed) {
  if (installed == nullptr) return {};
  return {&installed->records(), &installed->fetching(),
          [installed] { return installed->source_rate(); }};
}

// REQUIRES: options.share with peers, and the manifest's digest.
absl::StatusOr<std::unique_ptr<ShareStore>> OpenShare(
    const ModelSpec& spec, ReadRateMeter* meter,
    const ExpertNodeOptions& options) {
  const ShareOptions& share = *options.share;
  ShareStoreOptions store;
  store.folder = share.experts_folder;
  store.records.quota_bytes = share.quota_bytes;
  store.records.reserve_bytes = share.reserve_bytes;
  store.records.meter = meter;
  std::unique_ptr<ExpertStore> source;
  if (share.repository) {
    source = std::make_unique<SourceStore>(
        spec,
        OpenerOfRepository(options.model_dir, *share.repository, options.hub));
  }
  return ShareStore::Open(RecordModel::Of(spec, options.manifest_digest), store,
                          *share.peers, std::move(source));
}

// Slices on their way to a card at once: enough that its link is never idle,
// few enough that the processor finds something to do.
constexpr int kCardStages = 3;

// Null where no card is to compute.
std::unique_ptr<CardSet> OpenCards(const ExpertNodeOptions& options,
                                   const ModelSpec& spec, TieredStore& store) {
  if (options.cards.empty()) return nullptr;
  const ExpertShape shape = spec.expert_shape();
  CardSetOptions cards;
  cards.cards = options.cards;
  cards.open = options.open_card ? options.open_card : OpenCudaExpertCard;
  if (!options.open_card) cards.pinner = CudaHostPinner(options.cards[0]);
  cards.limits.shape = shape;
  cards.limits.situ = spec.situ;
  cards.limits.max_rows =
      std::max(options.queue_limits.max_run_tokens, options.max_request_tokens);
  cards.limits.max_routes = spec.num_experts_per_token * shape.num_slices();
  cards.limits.num_layer_slices = spec.num_experts * shape.num_slices();
  cards.limits.num_stages = kCardStages;
  cards.tier.memory.most_bytes = options.card_ram_bytes;
  cards.tier.most_slots = static_cast<size_t>(cards.limits.num_layer_slices) *
                          spec.num_moe_layers();
  cards.tier.heat_half_life = HeatHalfLife(spec);
  return std::make_unique<CardSet>(cards, store);
}

std::string ProcessId() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return fmt::format("{}:{}", host, getpid());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertNode>> ExpertNode::Create(
    const ExpertNodeOptions& options) {
  ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Load(options.model_dir));
  ExpertNodeOptions complete = options;
  ASSIGN_OR_RETURN(complete.ram_bytes, TierBytes(options, spec));
  auto meter = std::make_unique<ReadRateMeter>(
      ReadRateOptions{options.sustained_read}, SystemClock());
  if (options.share) {
    ASSIGN_OR_RETURN(std::unique_ptr<ShareStore> share,
                     OpenShare(spec, meter.get(), complete));
    ShareStore* const opened = share.get();
    ASSIGN_OR_RETURN(
        std::unique_ptr<ExpertNode> node,
        CreateOver(complete, spec, std::move(share), std::move(meter)));
    node->share_ = opened;
    node->BeginUpkeep({&opened->records(), &opened->fetching(), {}});
    return node;
  }
  ASSIGN_OR_RETURN(OpenedExperts experts,
                   OpenExperts(spec, meter.get(), complete));
  ASSIGN_OR_RETURN(
      std::unique_ptr<ExpertNode> node,
      CreateOver(complete, spec, std::move(experts.store), std::move(meter)));
  node->BeginUpkeep(KeptBy(experts.installed));
  if (experts.installed != nullptr) node->TellStreaming(*experts.installed);
  return node;
}

absl::StatusOr<std::unique_ptr<ExpertNode>> ExpertNode::CreateOver(
    const ExpertNodeOptions& options, const ModelSpec& spec,
    std::unique_ptr<ExpertStore> experts,
    std::unique_ptr<ReadRateMeter> meter) {
  ExpertNodeOptions complete = options;
  if (complete.kernel == nullptr) complete.kernel = &BestKernel();
  if (complete.num_threads == 0) {
    complete.num_threads = static_cast<int>(AllowedCpus().size());
  }
  ExpertStore& lower = *experts;
  ASSIGN_OR_RETURN(
      std::unique_ptr<TieredStore> store,
      TieredStore::Create(
          std::move(experts),
          {complete.ram_bytes, complete.num_readers, HeatHalfLife(spec)}));
  return std::unique_ptr<ExpertNode>(new ExpertNode(
      complete, spec, lower, std::move(store), std::move(meter)));
}

ExpertNode::ExpertNode(const ExpertNodeOptions& options, const ModelSpec& spec,
                       ExpertStore& experts, std::unique_ptr<TieredStore> store,
                       std::unique_ptr<ReadRateMeter> meter)
    : options_(options),
      spec_(spec),
      meter_(std::move(meter)),
      experts_(experts),
      store_(std::move(store)),
      slices_(spec_, options_.manifest_digest, experts_.held(),
              /*copies_at_once=*/1),
      cards_(OpenCards(options_, spec_, *store_)) {
  engine_ =
      std::make_unique<ExpertEngine>(*options_.kernel, spec_.situ, *store_,
                                     options_.num_threads, cards_.get());
  identity_.set_node_id(options_.node_id.empty() ? ProcessId()
                                                 : options_.node_id);
  identity_.set_manifest_digest(options_.manifest_digest);
  identity_.set_wire_version(kWireVersion);
  identity_.set_numerics_version(kNumericsVersion);
  identity_.set_kernel(options_.kernel->name);
  identity_.set_threads(options_.num_threads);
  identity_.set_ram_bytes(options_.ram_bytes);
  identity_.set_version(DELTAFIN_VERSION);
  service_ = std::make_unique<ExpertService>(
      identity_,
      LayerStreamContext{spec_, *engine_, counters_, gate_,
                         options_.max_request_tokens, options_.queue_limits,
                         options_.reply_delay, options_.reply_error},
      *store_, slices_);
}

// Records have their ledger beside them.
void ExpertNode::BeginUpkeep(const KeptExperts& kept) {
  upkeep_.governor = std::make_unique<MemoryGovernor>(
      *store_, MemoryReserveOf(store_->max_capacity_bytes()));
  LedgerOptions ledger;
  ledger.folder =
      kept.records == nullptr ? options_.data_dir : kept.records->folder();
  ledger.manifest_digest = options_.manifest_digest;
  ledger.rates = [this, source_rate = kept.source_rate] {
    return LedgerRates{read_rate().bytes_per_second,
                       source_rate ? source_rate() : 0};
  };
  upkeep_.ledger =
      std::make_unique<LedgerKeeper>(ledger, *store_, kept.records);
  if (kept.records == nullptr) return;
  upkeep_.stored_experts = std::make_unique<StoredExperts>(
      *kept.records, *kept.fetching, *store_, *upkeep_.ledger);
  upkeep_.service = std::make_unique<StorageService>(*upkeep_.stored_experts);
}

void ExpertNode::TellStreaming(InstalledExperts& installed) const {
  const std::string notice = MissingExpertsNotice(
      options_.model_dir, spec_, installed, upkeep_.ledger->found_rates());
  if (!notice.empty()) spdlog::info("{}", notice);
}

ExpertNode::~ExpertNode() { Shutdown(absl::ZeroDuration()); }

absl::Status ExpertNode::MeasureKernel() {
  kernel_rate_ = options_.kernel_rate;
  if (kernel_rate_ > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      kernel_rate_,
      MeasureKernelRate(options_.kernel->expert, spec_.expert_shape(),
                        spec_.situ, options_.num_threads, kKernelMeasurement));
  return absl::OkStatus();
}

CardSetStats ExpertNode::cards() const {
  return cards_ == nullptr ? CardSetStats() : cards_->stats();
}

ReadRateReport ExpertNode::read_rate() const {
  return meter_ == nullptr ? ReadRateReport() : meter_->report();
}

absl::Status ExpertNode::Start() {
  ServerOptions options;
  options.listen = options_.listen;
  options.credentials = options_.credentials;
  options.keepalive = KeepaliveWithin(options_.keepalive_bound);
  options.max_receive_bytes =
      MaxLayerRequestBytes(spec_, options_.max_request_tokens);
  std::vector<grpc::Service*> services = {service_.get()};
  if (upkeep_.service != nullptr) services.push_back(upkeep_.service.get());
  ASSIGN_OR_RETURN(server_, ServerLifecycle::Start(options, services));
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> ExpertNode::InProcessChannel() {
  return server_->InProcessChannel();
}

void ExpertNode::Shutdown(absl::Duration drain) {
  if (server_ == nullptr) return;
  server_->SetNotServing();
  service_->EndStreams(drain);
  server_->Shutdown(absl::Seconds(1));
}

}  // namespace deltafin
