#include "coordinator/coordinator.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/manifest.h"
#include "common/base/progress.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "coordinator/streamed_spine_notice.h"

namespace deltafin {
namespace {

constexpr int64_t kDefaultContext = 8192;
// Hashing less than this takes under a second: not worth a file.
constexpr uint64_t kCachedManifestBytes = uint64_t{1} << 30;

// Where the manifest of a model directory is remembered; empty where it is
// quickly made or there is no cache folder.
std::string ManifestCacheFile(const std::string& cache_dir,
                              const std::string& model_dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  uint64_t bytes = 0;
  for (const fs::directory_entry& file :
       fs::directory_iterator(model_dir, error)) {
    if (file.is_regular_file(error)) bytes += file.file_size(error);
  }
  if (cache_dir.empty() || bytes < kCachedManifestBytes) return "";
  const fs::path folder = fs::path(cache_dir) / "manifests";
  fs::create_directories(folder, error);
  const std::string path = fs::weakly_canonical(model_dir, error).string();
  const std::string name =
      Sha256Hex({reinterpret_cast<const uint8_t*>(path.data()), path.size()});
  return folder / name.substr(0, 16);
}

absl::StatusOr<int64_t> ContextBound(int64_t wanted, const ModelSpec& spec) {
  if (wanted == 0) {
    return std::min(kDefaultContext, spec.max_position_embeddings);
  }
  if (wanted <= spec.max_position_embeddings) return wanted;
  return absl::InvalidArgumentError(
      absl::StrCat("--context ", wanted, ": the model allows at most ",
                   spec.max_position_embeddings, " tokens"));
}

// A node named twice would do double work and count it twice.
absl::Status RequireDistinct(const NodeRegistry& registry) {
  absl::flat_hash_map<std::string, std::string> name_of_id;
  for (const ConnectedMember& node : registry.members_in_service()) {
    const std::string& id = node.identity.node_id();
    const auto [it, added] = name_of_id.emplace(id, node.name);
    if (added) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--nodes: ", it->second, " and ", node.name,
                     " are the same node (", id, "); name each node once"));
  }
  return absl::OkStatus();
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)) {}

Coordinator::~Coordinator() { Shutdown(); }

absl::Status Coordinator::Init() {
  RETURN_IF_ERROR(ReadModel());
  RETURN_IF_ERROR(SettleMemory());
  RETURN_IF_ERROR(ConnectNodes());
  RETURN_IF_ERROR(LoadSpine());
  forward_ = std::make_unique<ForwardPass>(*spine_, *dispatcher_);
  SchedulerOptions engine;
  engine.prefill_chunk = options_.prefill_chunk;
  engine.context_tokens = options_.context_tokens;
  engine.max_sequences = options_.max_sequences;
  engine.max_queued = options_.max_queued;
  engine.sequence_bytes = static_cast<int64_t>(plan_.sequence_bytes);
  engine.retained_bytes = static_cast<int64_t>(plan_.retained_bytes);
  engine.speculation = options_.speculation;
  engine.kernel = &kernel_->elementwise;
  scheduler_ = std::make_unique<Scheduler>(engine, *forward_);
  return absl::OkStatus();
}

absl::Status Coordinator::Start() { return scheduler_->Start(); }

void Coordinator::Shutdown() {
  if (scheduler_ != nullptr) scheduler_->Shutdown();
  scheduler_.reset();
  forward_.reset();
  spine_.reset();
  dispatcher_.reset();
  counting_.reset();
  membership_.reset();
}

absl::Status Coordinator::ReadModel() {
  if (tokenizer_ != nullptr) return absl::OkStatus();
  std::string why;
  kernel_ = options_.kernel.empty() ? &BestKernel()
                                    : FindKernel(options_.kernel, &why);
  if (kernel_ == nullptr) return absl::InvalidArgumentError(why);
  if (options_.num_threads == 0) {
    options_.num_threads = static_cast<int>(AllowedCpus().size());
  }
  model_.dir = options_.model_dir;
  ASSIGN_OR_RETURN(model_.spec, ModelSpec::Load(model_.dir));
  ASSIGN_OR_RETURN(options_.context_tokens,
                   ContextBound(options_.context_tokens, model_.spec));
  Progress progress("reading the model's files for its identity");
  ASSIGN_OR_RETURN(
      model_.manifest,
      ManifestOfDirectory(model_.dir,
                          ManifestCacheFile(options_.cache_dir, model_.dir),
                          [&progress](uint64_t done, uint64_t total) {
                            progress.Update(done, total);
                          }));
  model_.manifest_digest = model_.manifest.Digest();
  ASSIGN_OR_RETURN(tokenizer_,
                   Tokenizer::Load(model_.dir, model_.spec.vocab_size));
  return absl::OkStatus();
}

absl::Status Coordinator::SettleMemory() {
  MemoryDemand demand;
  placement_ = PlaceSpine(options_, model_.spec);
  demand.spine = placement_.host;
  demand.spine_limit = options_.spine_ram_bytes;
  demand.context_tokens = options_.context_tokens;
  demand.max_sequences = options_.max_sequences;
  demand.prefill_chunk = options_.prefill_chunk;
  demand.has_drafts = placement_.on_host_alone() &&
                      options_.speculation != SpeculationMode::kOff;
  demand.retained_bytes = options_.prefix_cache_bytes;
  if (options_.has_own_node()) {
    demand.all_expert_bytes = AllExpertBytes(model_.spec);
    demand.tier_bytes = options_.ram_bytes;
    demand.least_tier_bytes = LayerExpertBytes(model_.spec);
  }
  ASSIGN_OR_RETURN(const uint64_t available, AvailableMemory());
  plan_ = PlanMemory(demand, available);
  RETURN_IF_ERROR(plan_.Check());
  TellMemory();
  return absl::OkStatus();
}

void Coordinator::TellMemory() const {
  spdlog::info("memory:\n{}", plan_.budget.Table());
  if (plan_.spine.num_streamed == 0) return;
  spdlog::info("{}",
               StreamedSpineNotice(plan_.spine, model_.spec.num_hidden_layers,
                                   MeasureModelDrive(model_.dir)));
}

MembershipOptions Coordinator::DescribeMembership() const {
  const ExpertShape shape = model_.spec.expert_shape();
  MembershipOptions options;
  RegistryOptions& registry = options.registry;
  registry.placement.num_slices = shape.num_slices();
  if (options_.placement_seed) {
    registry.placement.cut = CutKind::kRandom;
    registry.placement.seed = *options_.placement_seed;
  }
  registry.placement.copies = options_.copies;
  registry.extent = {
      model_.spec.first_k_dense_replace,
      model_.spec.num_moe_layers(),
      model_.spec.num_experts,
      shape.num_slices(),
      model_.spec.num_experts_per_token,
      static_cast<int64_t>(shape.stride_bytes()) / shape.num_slices()};
  registry.copy_bytes_per_second = options_.copy_bytes_per_second;
  registry.rebalance_after = options_.rebalance_after;
  registry.copies_begin_after = options_.limits.gone_after;
  registry.identity = {model_.manifest_digest, "deltafin"};
  registry.model = model_.dir;
  registry.limits = options_.limits;
  registry.supplies_slices = options_.cluster;
  options.state_dir = options_.state_dir;
  options.nodes = options_.nodes;
  options.credentials = options_.credentials;
  options.keepalive_bound = options_.keepalive_bound;
  if (options_.has_own_node()) {
    options.own_node = {model_.dir,
                        model_.manifest_digest,
                        options_.hub,
                        plan_.tier_bytes,
                        options_.num_threads,
                        kernel_,
                        options_.expert_cards,
                        options_.expert_card_ram_bytes};
  }
  return options;
}

absl::Status Coordinator::ConnectNodes() {
  const MembershipOptions membership = DescribeMembership();
  ASSIGN_OR_RETURN(membership_, Membership::Create(membership));
  NodeRegistry& registry = membership_->registry();
  DispatcherOptions dispatch;
  dispatch.identity = {model_.manifest_digest, "deltafin"};
  dispatch.latent_size = model_.spec.expert_shape().latent_size;
  dispatch.extent = membership.registry.extent;
  dispatch.kernel = &kernel_->elementwise;
  dispatch.layer_timeout = options_.layer_deadline;
  dispatch.exchange.read_ahead = options_.read_ahead;
  dispatch.exchange.hedge_budget = options_.hedge_budget;
  dispatcher_ = std::make_unique<ExpertDispatcher>(dispatch, registry);
  if (!options_.cluster) {
    RETURN_IF_ERROR(dispatcher_->ConnectAll());
    RETURN_IF_ERROR(RequireDistinct(registry));
  }
  counting_ = std::make_unique<NodeCounting>(registry);
  return absl::OkStatus();
}

absl::Status Coordinator::LoadSpine() {
  threads_ = std::make_unique<ThreadPool>(options_.num_threads, "spine");
  ASSIGN_OR_RETURN(spine_, deltafin::LoadSpine(
                               options_, model_.spec, placement_,
                               plan_.spine.num_streamed, *kernel_, *threads_));
  return absl::OkStatus();
}

RunSettings Coordinator::settings() const {
  RunSettings settings;
  const SpineDescription spine = spine_->description();
  settings.spine = spine.name;
  settings.kernel = spine.kernel;
  settings.streamed_layers = spine.streamed_layers;
  settings.streamed_bytes = spine.streamed_bytes;
  settings.num_threads = options_.num_threads;
  settings.prefill_chunk = options_.prefill_chunk;
  settings.context_tokens = options_.context_tokens;
  settings.placement = options_.placement_seed.has_value()
                           ? absl::StrCat("random:", *options_.placement_seed)
                           : "even";
  return settings;
}

RunStatistics Coordinator::Statistics() const {
  RunStatistics statistics;
  statistics.settings = settings();
  statistics.scheduler = scheduler_->stats();
  statistics.nodes = counting_->Reports();
  AddDispatched(dispatcher_->stats(), &statistics.nodes);
  return statistics;
}

}  // namespace deltafin
