#include "coordinator/frontend/cluster_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

// The same for every reader: bytes that are no UTF-8 (a node's own words) are
// replaced.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json OrNull(bool is_known, double value) {
  return is_known ? Json(value) : Json();
}

const char* VerdictName(v1::ClusterHealth::Verdict verdict) {
  if (verdict == v1::ClusterHealth::HEALTHY) return "healthy";
  return verdict == v1::ClusterHealth::DEGRADED ? "degraded" : "down";
}

Json Percentiles(uint32_t p50_us, uint32_t p99_us) {
  return {{"p50", p50_us / 1e6}, {"p99", p99_us / 1e6}};
}

Json Describe(const v1::NodeHealth& node) {
  const v1::NodeCapacity& can = node.capacity();
  const v1::NodeLoad& load = node.load();
  return {
      {"name", node.name()},
      {"id", node.node_id()},
      {"state", node.state()},
      {"version", node.version()},
      {"share", node.share()},
      {"remark", node.remark()},
      {"errors", node.errors()},
      {"last_seen_ms", node.last_seen_ms()},
      {"disk", {{"bytes", can.disk_bytes()}, {"free", can.disk_free_bytes()}}},
      {"memory",
       {{"bytes", can.memory_bytes()}, {"free", can.memory_free_bytes()}}},
      {"cores", can.cores()},
      {"read_rate", can.read_bytes_per_second()},
      {"kernel_rate", can.kernel_bytes_per_second()},
      {"throttled", can.throttled()},
      {"rtt", Percentiles(node.round_trip_p50_us(), node.round_trip_p99_us())},
      {"layer", Percentiles(node.layer_p50_us(), node.layer_p99_us())},
      {"queue", load.counters().queue_depth()},
      {"resident_bytes", load.counters().resident_bytes()},
      {"resident_experts", load.resident_experts()},
      {"owned_slices", load.owned_slices()},
  };
}

// What a node did for the coordinator between two looks, `seconds` apart.
void AddWork(const NodeWork& before, const NodeWork& now, double seconds,
             Json* node) {
  const double hits = static_cast<double>(now.cache_hits - before.cache_hits);
  const double all =
      hits + static_cast<double>(now.cache_misses - before.cache_misses);
  const double busy = now.read_seconds + now.compute_seconds -
                      before.read_seconds - before.compute_seconds;
  const bool is_known = seconds > 0;
  const double read = static_cast<double>(now.bytes_read - before.bytes_read);
  (*node)["reads_now"] = OrNull(is_known, read / seconds);
  (*node)["busy"] = OrNull(is_known, std::clamp(busy / seconds, 0.0, 1.0));
  (*node)["hit_rate"] = OrNull(is_known && all > 0, hits / all);
  (*node)["lost"] = now.parts_lost;
}

Json LayerRow(const LayerTimesSnapshot& layers, const std::string& name) {
  Json row = Json::array();
  for (const LayerTimesSnapshot::Node& node : layers.nodes) {
    if (node.name != name) continue;
    for (const float ms : node.milliseconds) {
      row.push_back(std::round(ms * 100.0) / 100.0);
    }
    break;
  }
  return row;
}

// Who took longest over the layers of the step, all in all.
std::string SlowestNode(const LayerTimesSnapshot& layers) {
  std::string slowest;
  double most = 0;
  for (const LayerTimesSnapshot::Node& node : layers.nodes) {
    double sum = 0;
    for (const float ms : node.milliseconds) sum += std::max(ms, 0.0F);
    if (sum <= most) continue;
    most = sum;
    slowest = node.name;
  }
  return slowest;
}

Json EngineJson(const SchedulerStats& before, const SchedulerStats& now,
                double seconds, const StepShares& shares) {
  const bool moved = seconds > 0 && now.steps > before.steps;
  const auto rate = [&](int64_t from, int64_t to) {
    return OrNull(moved, static_cast<double>(to - from) / seconds);
  };
  Json parts;
  if (shares.any()) {
    parts = {{"spine", shares.spine},
             {"disk", shares.disk},
             {"experts", shares.experts},
             {"network", shares.network}};
  }
  return {
      {"running", now.requests_running},
      {"waiting", now.requests_waiting},
      {"finished", now.requests_finished},
      {"steps", now.steps},
      {"decode_tokens", now.decode_tokens},
      {"prefill_tokens", now.prefill_tokens},
      {"tokens_per_second", rate(before.decode_tokens, now.decode_tokens)},
      {"prefill_tokens_per_second",
       rate(before.prefill_tokens, now.prefill_tokens)},
      {"shares", std::move(parts)},
  };
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

Json EventJson(const ClusterEvent& event) {
  return {{"number", event.number}, {"time", UnixSeconds(event.time)},
          {"times", event.times},   {"since", UnixSeconds(event.since)},
          {"node", event.node},     {"id", event.node_id},
          {"from", event.from},     {"to", event.to},
          {"why", event.why}};
}

Json VerdictJson(const SpeedFacts& facts) {
  const v1::ClusterHealth& health = facts.health;
  const SpeedLimit limit = JudgeSpeed(facts);
  return {
      {"verdict", VerdictName(health.verdict())},
      {"reason", health.reason()},
      {"epoch", health.epoch()},
      {"copies",
       {{"wanted", health.copies_wanted()}, {"least", health.copies_least()}}},
      {"limit", {{"place", limit.place}, {"sentence", limit.sentence}}}};
}

// What one snapshot is made of.
struct Look {
  ClusterSample before;
  ClusterSample now;
  double seconds = 0;  // between them
  LayerTimesSnapshot layers;
  SpeedFacts facts;
};

// Of one of the two; nothing where the node did nothing yet.
NodeWork WorkOf(const ClusterSample& sample, const std::string& node_id) {
  const auto found = sample.work.find(node_id);
  return found == sample.work.end() ? NodeWork() : found->second;
}

Json NodesJson(const Look& look) {
  Json nodes = Json::array();
  for (const v1::NodeHealth& member : look.facts.health.nodes()) {
    Json node = Describe(member);
    AddWork(WorkOf(look.before, member.node_id()),
            WorkOf(look.now, member.node_id()), look.seconds, &node);
    node["layer_ms"] = LayerRow(look.layers, member.name());
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

ClusterReport::ClusterReport(ClusterTitle title, const NodeRegistry& registry,
                             const Scheduler& scheduler,
                             const ExpertDispatcher& dispatcher,
                             const Clock& clock)
    : title_(std::move(title)),
      registry_(registry),
      scheduler_(scheduler),
      dispatcher_(dispatcher),
      clock_(clock) {}

ClusterSample ClusterReport::TakeSample() const {
  ClusterSample sample;
  sample.at = clock_.Elapsed();
  sample.scheduler = scheduler_.stats();
  for (const NodeStats& node : dispatcher_.stats().nodes) {
    sample.work[node.info.node_id()] = node.work;
  }
  return sample;
}

// Where nothing ran there is nothing to tell of, and what comes next is not to
// be measured over the pause.
ClusterSample ClusterReport::Before(ClusterSample now) {
  const auto age = [&](size_t i) { return now.at - samples_[i].at; };
  if (now.scheduler.requests_running == 0) samples_.clear();
  while (!samples_.empty() && age(0) > 2 * kWindow) samples_.pop_front();
  while (samples_.size() > 1 && age(1) >= kWindow) samples_.pop_front();
  ClusterSample before = samples_.empty() ? now : samples_.front();
  samples_.push_back(std::move(now));
  return before;
}

std::string ClusterReport::Snapshot() {
  Look look;
  look.now = TakeSample();
  look.before = Before(look.now);
  look.seconds = absl::ToDoubleSeconds(look.now.at - look.before.at);
  look.layers = dispatcher_.layer_times().Snapshot();
  look.facts.health = registry_.health();
  look.facts.running = look.now.scheduler.requests_running;
  look.facts.waiting = look.now.scheduler.requests_waiting;
  look.facts.shares =
      SharesBetween(look.before.scheduler.forward, look.now.scheduler.forward);
  look.facts.slowest_node = SlowestNode(look.layers);
  const ModelExtent& extent = registry_.extent();
  Json report = {{"time", UnixSeconds(clock_.Now())},
                 {"version", title_.version},
                 {"model", title_.model},
                 {"spine", title_.spine},
                 {"kernel", title_.kernel}};
  report.update(VerdictJson(look.facts));
  report["engine"] = EngineJson(look.before.scheduler, look.now.scheduler,
                                look.seconds, look.facts.shares);
  report["step"] = {{"number", look.layers.step},
                    {"layer", look.layers.layer},
                    {"first_layer", extent.first_layer},
                    {"num_layers", extent.num_layers}};
  report["nodes"] = NodesJson(look);
  Json events = Json::array();
  for (const ClusterEvent& event : registry_.events()) {
    events.push_back(EventJson(event));
  }
  report["events"] = std::move(events);
  return Text(report);
}

std::string ClusterReport::Heat() const {
  const RouteHeat& heat = dispatcher_.heat();
  const std::vector<float> counts = heat.Snapshot();
  const float most =
      counts.empty() ? 0.0F : *std::max_element(counts.begin(), counts.end());
  std::string levels;
  levels.reserve(counts.size());
  for (const float count : counts) {
    const double share = most > 0 ? count / most : 0.0;
    levels.push_back(static_cast<char>(std::lround(255 * std::sqrt(share))));
  }
  const Json report = {{"first_layer", heat.extent().first_layer},
                       {"layers", heat.extent().num_layers},
                       {"experts", heat.extent().num_experts},
                       {"half_life_tokens", RouteHeat::kHalfLifeTokens},
                       {"most", most},
                       {"levels", absl::Base64Escape(levels)}};
  return Text(report);
}

}  // namespace deltafin
