// The two forms in which `deltafin health` shows a cluster.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/printable_text.h"
#include "coordinator/cli/health_command.h"
#include "coordinator/cli/text_table.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLegend[] =
    "\nRTT, layer (its part of one): p50/p99 in ms; owned: slices of experts "
    "on its disk / meant to\nbe there; in RAM: experts; disk, RAM: free, in "
    "GiB; read: GiB/s; seen: "
    "ago\n";
constexpr double kGiB = double{1 << 30};

const char* VerdictName(v1::ClusterHealth::Verdict verdict) {
  switch (verdict) {
    case v1::ClusterHealth::HEALTHY:
      return "healthy";
    case v1::ClusterHealth::DEGRADED:
      return "degraded";
    default:
      return "down";
  }
}

std::string Milliseconds(uint32_t p50_us, uint32_t p99_us) {
  if (p50_us == 0 && p99_us == 0) return "-";
  return fmt::format("{:.2f}/{:.2f}", 1e-3 * p50_us, 1e-3 * p99_us);
}

std::string Gigabytes(double bytes, double of_which) {
  if (of_which == 0) return "-";
  return fmt::format("{:.1f}", bytes / kGiB);
}

// Of what heartbeats tell, which named nodes do not send.
std::string Told(const v1::NodeHealth& node, uint64_t number) {
  if (node.capacity().memory_bytes() == 0) return "-";
  return fmt::format("{}", number);
}

std::vector<std::string> Row(const v1::NodeHealth& node) {
  const v1::NodeCapacity& capacity = node.capacity();
  return {node.name(),
          node.node_id().substr(0, 8),
          node.state(),
          node.version(),
          fmt::format("{:.1f}%", 100 * node.share()),
          Milliseconds(node.round_trip_p50_us(), node.round_trip_p99_us()),
          Milliseconds(node.layer_p50_us(), node.layer_p99_us()),
          Told(node, node.load().owned_slices()) + '/' +
              Told(node, node.meant_slices()),
          Told(node, node.load().resident_experts()),
          Gigabytes(capacity.disk_free_bytes(), capacity.disk_bytes()),
          Gigabytes(capacity.memory_free_bytes(), capacity.memory_bytes()),
          Gigabytes(capacity.read_bytes_per_second(),
                    capacity.read_bytes_per_second()),
          Told(node, node.load().counters().queue_depth()),
          fmt::format("{}", node.errors()),
          fmt::format("{:.1f} s", 1e-3 * node.last_seen_ms()),
          node.remark()};
}

std::string Scarcity(const v1::ClusterHealth& health) {
  if (health.scarce_slices() == 0) return "";
  return fmt::format(": {} slices have fewer, {} none", health.scarce_slices(),
                     health.uncovered_slices());
}

Json NodeJson(const v1::NodeHealth& node) {
  const v1::NodeCapacity& capacity = node.capacity();
  return {{"name", node.name()},
          {"node_id", node.node_id()},
          {"state", node.state()},
          {"version", node.version()},
          {"share", node.share()},
          {"round_trip_p50_us", node.round_trip_p50_us()},
          {"round_trip_p99_us", node.round_trip_p99_us()},
          {"layer_p50_us", node.layer_p50_us()},
          {"layer_p99_us", node.layer_p99_us()},
          {"owned_slices", node.load().owned_slices()},
          {"meant_slices", node.meant_slices()},
          {"missing_slices", node.missing_slices()},
          {"resident_experts", node.load().resident_experts()},
          {"disk_bytes", capacity.disk_bytes()},
          {"disk_free_bytes", capacity.disk_free_bytes()},
          {"memory_bytes", capacity.memory_bytes()},
          {"memory_free_bytes", capacity.memory_free_bytes()},
          {"read_bytes_per_second", capacity.read_bytes_per_second()},
          {"kernel_bytes_per_second", capacity.kernel_bytes_per_second()},
          {"throttled", capacity.throttled()},
          {"queue_depth", node.load().counters().queue_depth()},
          {"errors", node.errors()},
          {"last_seen_ms", node.last_seen_ms()},
          {"remark", node.remark()}};
}

}  // namespace

std::string HealthTable(const v1::ClusterHealth& health) {
  std::string text = fmt::format(
      "cluster      {}: {}\n"
      "model        {}\n"
      "copies       {} of {}{}\n"
      "epoch        {}, coordinator {:.8}\n",
      VerdictName(health.verdict()), OneLine(health.reason()),
      OneLine(health.model()), health.copies_least(), health.copies_wanted(),
      Scarcity(health), health.epoch(), OneLine(health.coordinator_id()));
  if (health.nodes().empty()) return text;
  TextTable table({"node", "id", "state", "version", "share", "RTT", "layer",
                   "owned", "in RAM", "disk", "RAM", "read", "queue", "errors",
                   "seen", "remark"});
  for (const v1::NodeHealth& node : health.nodes()) table.Add(Row(node));
  return text + '\n' + table.ToString() + kLegend;
}

std::string HealthJson(const v1::ClusterHealth& health) {
  Json nodes = Json::array();
  for (const v1::NodeHealth& node : health.nodes()) {
    nodes.push_back(NodeJson(node));
  }
  const Json json = {{"verdict", VerdictName(health.verdict())},
                     {"reason", health.reason()},
                     {"epoch", health.epoch()},
                     {"copies_wanted", health.copies_wanted()},
                     {"copies_least", health.copies_least()},
                     {"uncovered_slices", health.uncovered_slices()},
                     {"scarce_slices", health.scarce_slices()},
                     {"model", health.model()},
                     {"coordinator_id", health.coordinator_id()},
                     {"nodes", nodes}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace deltafin
