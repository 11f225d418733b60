#include "coordinator/frontend/speed_limit.h"

#include <algorithm>
#include <array>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

struct Place {
  const char* name;
  double share;
  const char* sentence;  // with the percentage
  bool is_of_a_node;
};

const v1::NodeHealth* FindNode(const v1::ClusterHealth& health,
                               const std::string& name) {
  const auto found = std::find_if(
      health.nodes().begin(), health.nodes().end(),
      [&name](const v1::NodeHealth& node) { return node.name() == name; });
  return found == health.nodes().end() ? nullptr : &*found;
}

// " The slowest is A: it throttles."
std::string Slowest(const SpeedFacts& facts) {
  const v1::NodeHealth* node = FindNode(facts.health, facts.slowest_node);
  if (node == nullptr || facts.health.nodes_size() < 2) return "";
  return fmt::format(
      " The slowest node is {}{}.", node->name(),
      node->capacity().throttled() ? ", whose drive throttles" : "");
}

SpeedLimit JudgeShares(const SpeedFacts& facts) {
  const std::array<Place, 4> places = {{
      {"spine", facts.shares.spine,
       "The coordinator: {:.0f} % of a step is the spine's own work.", false},
      {"disk", facts.shares.disk,
       "Drives: {:.0f} % of a step is waiting for experts to be read.", true},
      {"experts", facts.shares.experts,
       "Processors of the nodes: {:.0f} % of a step is the experts' "
       "arithmetic.",
       true},
      {"network", facts.shares.network,
       "Network and waiting: {:.0f} % of a step passes on the way to the nodes "
       "and in their queues.",
       true},
  }};
  const Place& most = *std::max_element(
      places.begin(), places.end(),
      [](const Place& a, const Place& b) { return a.share < b.share; });
  return {most.name,
          fmt::format(fmt::runtime(most.sentence), 100 * most.share) +
              (most.is_of_a_node ? Slowest(facts) : "")};
}

}  // namespace

StepShares SharesBetween(const ForwardStats& before,
                         const ForwardStats& after) {
  const auto spine = [](const ForwardStats& stats) {
    return stats.spine.read + stats.spine.attention + stats.spine.compute +
           stats.spine.head;
  };
  StepShares shares;
  shares.spine = spine(after) - spine(before);
  shares.disk = after.experts_read - before.experts_read;
  shares.experts = after.experts_compute - before.experts_compute;
  shares.network = after.network - before.network;
  for (double* part :
       {&shares.spine, &shares.disk, &shares.experts, &shares.network}) {
    *part = std::max(0.0, *part);
  }
  const double all =
      shares.spine + shares.disk + shares.experts + shares.network;
  if (all <= 0) return {};
  for (double* part :
       {&shares.spine, &shares.disk, &shares.experts, &shares.network}) {
    *part /= all;
  }
  return shares;
}

SpeedLimit JudgeSpeed(const SpeedFacts& facts) {
  if (facts.health.verdict() == v1::ClusterHealth::DOWN) {
    return {"down", fmt::format("Nothing can run: {}.", facts.health.reason())};
  }
  if (facts.running == 0 && facts.waiting == 0) {
    return {"idle", "Nothing: nobody asks for anything now."};
  }
  if (!facts.shares.any()) {
    return {"starting", "The first step is under way; soon there is more."};
  }
  return JudgeShares(facts);
}

}  // namespace deltafin
