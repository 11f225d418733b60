#include "coordinator/cluster/drain.h"

#include <algorithm>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// Work of a step that began before the drain shows up within one.
constexpr int kQuietHeartbeats = 2;

std::string Describe(const NodeName& node) {
  if (node.id.empty()) return node.address;
  if (node.address.empty()) return fmt::format("{} (not here now)", node.id);
  return fmt::format("{} ({})", node.id, node.address);
}

std::string List(std::span<const NodeName> nodes, std::string_view beginning) {
  std::string list;
  for (const NodeName& node : nodes) {
    if (!node.id.starts_with(beginning)) continue;
    if (!list.empty()) list += ", ";
    list += Describe(node);
  }
  return list.empty() ? "none" : list;
}

}  // namespace

absl::StatusOr<int> FindNode(std::span<const NodeName> nodes,
                             std::string_view wanted) {
  int found = -1;
  int num_found = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeName& node = nodes[i];
    if (!wanted.empty() && (node.id == wanted || node.address == wanted)) {
      return static_cast<int>(i);
    }
    if (wanted.empty() || !node.id.starts_with(wanted)) continue;
    found = static_cast<int>(i);
    ++num_found;
  }
  if (num_found == 1) return found;
  if (num_found > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "several nodes are called {:.64}...: {}; give more of the id", wanted,
        List(nodes, wanted)));
  }
  return absl::NotFoundError(
      fmt::format("no node has the id or address '{:.64}'; there are: {}",
                  wanted, List(nodes, "")));
}

int64_t SlicesOnlyOn(int slot, const Placement& placement,
                     const ModelExtent& extent) {
  SliceSet others = extent.NoSlices();
  for (int other = 0; other < placement.num_slots(); ++other) {
    const Member& member = placement.member(other);
    if (other == slot || member.state != MemberState::kServing) continue;
    if (member.holdings == nullptr) return 0;
    others.UnionWith(*member.holdings);
  }
  const SliceSet* const own = placement.member(slot).holdings.get();
  return own == nullptr ? extent.num_pairs() - others.size()
                        : own->CountNotIn(others);
}

absl::StatusOr<DrainStep> JudgeDrain(const DrainFacts& facts) {
  if (!facts.is_draining) {
    return absl::AbortedError(
        fmt::format("node {} is in service again; drain it once more if it is "
                    "to go",
                    facts.name));
  }
  if (!facts.is_there) {
    return DrainStep{.done = true,
                     .sentence = fmt::format(
                         "node {} is not there and may stay away", facts.name)};
  }
  if (facts.slices_only_here > 0) {
    const int64_t all = std::max(facts.alone_at_start, facts.slices_only_here);
    return DrainStep{
        .sentence = fmt::format(
            "others copy what node {} alone has: {} of {} slices of experts "
            "are done{}",
            facts.name, all - facts.slices_only_here, all,
            facts.others_copy ? "" : ", and no node is there that copies"),
        .is_copying = true};
  }
  if (facts.requests_here > 0) {
    return DrainStep{.sentence =
                         fmt::format("node {} has {} requests to finish",
                                     facts.name, facts.requests_here)};
  }
  if (!facts.was_heard || facts.quiet < kQuietHeartbeats * facts.heartbeat) {
    return DrainStep{
        .sentence = fmt::format("waiting until node {} is quiet", facts.name)};
  }
  return DrainStep{
      .done = true,
      .sentence = fmt::format("node {} may be switched off", facts.name)};
}

absl::Status RefuseDrain(std::string_view name, int64_t slices_only_here) {
  return absl::FailedPreconditionError(fmt::format(
      "{} slices of experts are on node {} alone, and no other node is in "
      "service that copies them: start another node, then drain again; {} "
      "stays "
      "in service",
      slices_only_here, name, name));
}

}  // namespace deltafin
