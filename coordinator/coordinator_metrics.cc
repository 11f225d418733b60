#include "coordinator/coordinator_metrics.h"

#include <algorithm>
#include <array>

namespace deltafin {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;

constexpr MetricInfo kInfo = {
    "deltafin_coordinator_info", kGauge,
    "Always 1; what the coordinator is, in its labels"};
constexpr MetricInfo kRunning = {"deltafin_running_requests", kGauge,
                                 "Requests that hold state now"};
constexpr MetricInfo kWaiting = {"deltafin_waiting_requests", kGauge,
                                 "Requests that wait for room"};
constexpr MetricInfo kFinished = {"deltafin_finished_requests_total", kCounter,
                                  "Requests that ended, by reason"};
constexpr MetricInfo kPrefillTokens = {"deltafin_prefill_tokens_total",
                                       kCounter,
                                       "Tokens of prompts that steps took"};
constexpr MetricInfo kDecodeTokens = {"deltafin_decode_tokens_total", kCounter,
                                      "Generated tokens that steps took"};
constexpr MetricInfo kCachedTokens = {
    "deltafin_cached_prompt_tokens_total", kCounter,
    "Tokens of prompts whose state was there already"};
constexpr MetricInfo kPrefixRequests = {
    "deltafin_prefix_requests_total", kCounter,
    "Requests by whether a retained state began their prompt"};
constexpr MetricInfo kRetainedBytes = {
    "deltafin_retained_state_bytes", kGauge,
    "Memory of states retained for later prompts"};
constexpr MetricInfo kRetainedStates = {"deltafin_retained_states", kGauge,
                                        "States retained for later prompts"};
constexpr MetricInfo kEvictedStates = {
    "deltafin_evicted_states_total", kCounter,
    "Retained states that were let go for room"};
constexpr MetricInfo kDraftSteps = {"deltafin_draft_steps_total", kCounter,
                                    "Steps that carried guessed tokens"};
constexpr MetricInfo kDrafted = {"deltafin_drafted_tokens_total", kCounter,
                                 "Guessed tokens that steps took"};
constexpr MetricInfo kAccepted = {"deltafin_accepted_tokens_total", kCounter,
                                  "Guessed tokens that were right"};
constexpr MetricInfo kSteps = {"deltafin_steps_total", kCounter,
                               "Steps of tokens through the model"};
constexpr MetricInfo kLayers = {"deltafin_layers_total", kCounter,
                                "Layers of steps"};
constexpr MetricInfo kStepSeconds = {"deltafin_step_seconds_total", kCounter,
                                     "Time of steps, by place"};

constexpr MetricInfo kSpineRead = {
    "deltafin_spine_read_bytes_total", kCounter,
    "Bytes read of spine layers that memory does not hold"};

constexpr MetricInfo kHealth = {"deltafin_cluster_health", kGauge,
                                "0 healthy, 1 degraded, 2 down"};
constexpr MetricInfo kEpoch = {"deltafin_cluster_epoch", kGauge,
                               "Epoch of the placement"};
constexpr MetricInfo kCopiesWanted = {"deltafin_cluster_wanted_copies", kGauge,
                                      "Copies of each expert, as configured"};
constexpr MetricInfo kCopiesLeast = {
    "deltafin_cluster_least_copies", kGauge,
    "Copies in service of the expert with the fewest"};
constexpr MetricInfo kUncovered = {
    "deltafin_cluster_uncovered_slices", kGauge,
    "Slices of experts that no node in service holds"};
constexpr MetricInfo kScarce = {
    "deltafin_cluster_scarce_slices", kGauge,
    "Slices of experts with fewer copies than configured"};
constexpr MetricInfo kMembers = {"deltafin_cluster_members", kGauge,
                                 "Members, by state"};

constexpr MetricInfo kState = {"deltafin_member_state", kGauge,
                               "1 for the state that the member is in"};
constexpr MetricInfo kShare = {"deltafin_member_share_ratio", kGauge,
                               "Part of every expert, 0 to 1"};
constexpr MetricInfo kErrors = {"deltafin_member_errors_total", kCounter,
                                "Streams lost and requests refused"};
constexpr MetricInfo kLastSeen = {"deltafin_member_last_seen_seconds", kGauge,
                                  "Since the member was heard of"};
constexpr MetricInfo kRoundTrip = {
    "deltafin_member_round_trip_seconds", kGauge,
    "Round trip of its last 128 heartbeats, by quantile"};
constexpr MetricInfo kLayerTime = {
    "deltafin_member_layer_seconds", kGauge,
    "Its last 128 parts of a layer, request to reply, by quantile"};
constexpr MetricInfo kReadRate = {
    "deltafin_member_read_bytes_per_second", kGauge,
    "Sustained rate of its drive as the member measured it, 0: not yet"};
constexpr MetricInfo kKernelRate = {
    "deltafin_member_kernel_bytes_per_second", kGauge,
    "Rate of its kernel as the member measured it, 0: not yet"};
constexpr MetricInfo kThrottled = {
    "deltafin_member_drive_throttled", kGauge,
    "1 while its drive reads slower than it first did"};
constexpr MetricInfo kAnswered = {"deltafin_member_answered_parts_total",
                                  kCounter,
                                  "Parts of layers that the member answered"};
constexpr MetricInfo kLost = {"deltafin_member_lost_parts_total", kCounter,
                              "Parts that were given to others"};
constexpr MetricInfo kDropped = {"deltafin_member_dropped_replies_total",
                                 kCounter, "Replies that came late or twice"};

constexpr MetricInfo kMeant = {"deltafin_member_meant_slices", kGauge,
                               "Slices that it is meant to hold"};
constexpr MetricInfo kMissing = {"deltafin_member_missing_slices", kGauge,
                                 "Those of them that it lacks"};
constexpr MetricInfo kCopyOrders = {"deltafin_member_copy_orders_total",
                                    kCounter,
                                    "Runs of slices that it was told to copy"};
constexpr MetricInfo kHedged = {
    "deltafin_member_hedged_parts_total", kCounter,
    "Its parts that were late and asked of another as well"};
constexpr MetricInfo kHedgedSlices = {
    "deltafin_member_hedged_slices_total", kCounter,
    "(token, expert, slice) triples of those parts"};
constexpr MetricInfo kHedgesWon = {
    "deltafin_member_won_hedges_total", kCounter,
    "Late parts of others that it answered sooner"};

constexpr std::array<const char*, 5> kStates = {"joining", "serving",
                                                "draining", "suspect", "gone"};

double Number(uint64_t value) { return static_cast<double>(value); }
double Seconds(uint32_t microseconds) { return microseconds * 1e-6; }

void AddQuantiles(const MetricInfo& metric, const MetricLabels& member,
                  uint32_t p50_us, uint32_t p99_us, MetricsPage& page) {
  const auto add = [&](const char* quantile, uint32_t us) {
    MetricLabels labels = member;
    labels.emplace_back("quantile", quantile);
    page.Add(metric, Seconds(us), labels);
  };
  add("0.5", p50_us);
  add("0.99", p99_us);
}

void AddMember(const v1::NodeHealth& node, const MetricLabels& member,
               MetricsPage& page) {
  MetricLabels state = member;
  state.emplace_back("state", node.state());
  page.Add(kState, 1, state);
  page.Add(kShare, node.share(), member);
  page.Add(kErrors, Number(node.errors()), member);
  page.Add(kLastSeen, Number(node.last_seen_ms()) * 1e-3, member);
  AddQuantiles(kRoundTrip, member, node.round_trip_p50_us(),
               node.round_trip_p99_us(), page);
  AddQuantiles(kLayerTime, member, node.layer_p50_us(), node.layer_p99_us(),
               page);
  const v1::NodeCapacity& capacity = node.capacity();
  page.Add(kReadRate, capacity.read_bytes_per_second(), member);
  page.Add(kKernelRate, capacity.kernel_bytes_per_second(), member);
  page.Add(kMeant, Number(node.meant_slices()), member);
  page.Add(kMissing, Number(node.missing_slices()), member);
  page.Add(kCopyOrders, Number(node.copy_orders()), member);
  page.Add(kThrottled, capacity.throttled() ? 1 : 0, member);
}

}  // namespace

void AddEngineMetrics(const SchedulerStats& stats, MetricsPage& page) {
  page.Add(kRunning, stats.requests_running);
  page.Add(kWaiting, stats.requests_waiting);
  const std::pair<const char*, int64_t> reasons[] = {
      {"stop", stats.finished.stop},
      {"length", stats.finished.length},
      {"evaluated", stats.finished.evaluated},
      {"cancelled", stats.finished.cancelled},
      {"deadline", stats.finished.deadline},
      {"failed", stats.finished.failed}};
  for (const auto& [reason, count] : reasons) {
    page.Add(kFinished, count, {{"reason", reason}});
  }
  page.Add(kPrefillTokens, stats.prefill_tokens);
  page.Add(kDecodeTokens, stats.decode_tokens);
  page.Add(kCachedTokens, stats.reuse.cached_tokens);
  page.Add(kPrefixRequests, stats.reuse.hits, {{"found", "yes"}});
  page.Add(kPrefixRequests, stats.reuse.misses, {{"found", "no"}});
  page.Add(kRetainedBytes, stats.reuse.retained_bytes);
  page.Add(kRetainedStates, stats.reuse.retained_states);
  page.Add(kEvictedStates, stats.reuse.evictions);
  page.Add(kDraftSteps, stats.speculation.steps);
  page.Add(kDrafted, stats.speculation.drafted);
  page.Add(kAccepted, stats.speculation.accepted);
  page.Add(kSteps, stats.steps);
  page.Add(kLayers, stats.forward.layers);
  page.Add(kSpineRead, stats.forward.spine.stream_bytes);
  const std::pair<const char*, double> places[] = {
      {"spine_read", stats.forward.spine.read},
      {"spine_attention", stats.forward.spine.attention},
      {"spine_compute", stats.forward.spine.compute},
      {"head", stats.forward.spine.head},
      {"experts_read", stats.forward.experts_read},
      {"experts_compute", stats.forward.experts_compute},
      {"network", stats.forward.network}};
  for (const auto& [place, seconds] : places) {
    page.Add(kStepSeconds, seconds, {{"place", place}});
  }
}

void AddClusterMetrics(const v1::ClusterHealth& health, MetricsPage& page) {
  page.Add(kHealth, health.verdict());
  page.Add(kEpoch, Number(health.epoch()));
  page.Add(kCopiesWanted, health.copies_wanted());
  page.Add(kCopiesLeast, health.copies_least());
  page.Add(kUncovered, Number(health.uncovered_slices()));
  page.Add(kScarce, Number(health.scarce_slices()));
  for (const char* state : kStates) {
    const auto count = std::count_if(
        health.nodes().begin(), health.nodes().end(),
        [&](const v1::NodeHealth& node) { return node.state() == state; });
    page.Add(kMembers, static_cast<double>(count), {{"state", state}});
  }
}

void AddMemberMetrics(const v1::ClusterHealth& health,
                      const DispatcherStats& work, MetricsPage& page) {
  for (const MetricInfo& metric :
       {kState, kShare, kErrors, kLastSeen, kRoundTrip, kLayerTime, kReadRate,
        kKernelRate, kThrottled, kMeant, kMissing, kCopyOrders, kAnswered,
        kLost, kDropped, kHedged, kHedgedSlices, kHedgesWon}) {
    page.Declare(metric);
  }
  for (const v1::NodeHealth& node : health.nodes()) {
    const MetricLabels member = {{"node", node.name()},
                                 {"node_id", node.node_id()}};
    AddMember(node, member, page);
    const auto found = std::find_if(
        work.nodes.begin(), work.nodes.end(), [&node](const NodeStats& stats) {
          return !stats.name.empty() && stats.info.node_id() == node.node_id();
        });
    if (found == work.nodes.end()) continue;
    page.Add(kAnswered, found->work.replies, member);
    page.Add(kLost, found->work.parts_lost, member);
    page.Add(kDropped, found->work.replies_dropped, member);
    page.Add(kHedged, found->work.parts_hedged, member);
    page.Add(kHedgedSlices, found->work.slices_hedged, member);
    page.Add(kHedgesWon, found->work.hedges_won, member);
  }
}

void AddCoordinatorMetrics(const Coordinator& coordinator, MetricsPage& page) {
  const RunSettings settings = coordinator.settings();
  page.Add(kInfo, 1,
           {{"version", DELTAFIN_VERSION},
            {"spine", settings.spine},
            {"kernel", settings.kernel}});
  AddEngineMetrics(coordinator.scheduler().stats(), page);
  const v1::ClusterHealth health = coordinator.registry().health();
  AddClusterMetrics(health, page);
  AddMemberMetrics(health, coordinator.dispatcher_stats(), page);
}

void AddSupplyMetrics(const SliceSupply& supply, MetricsPage& page) {
  constexpr MetricInfo kSent = {"deltafin_coordinator_sent_slice_bytes_total",
                                MetricType::kCounter,
                                "Bytes of experts given to nodes' drives"};
  page.Add(kSent, static_cast<double>(supply.bytes_sent()));
}

}  // namespace deltafin
