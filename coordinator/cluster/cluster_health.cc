#include "coordinator/cluster/cluster_health.h"

#include <algorithm>
#include <vector>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

bool IsInService(const Member& member) {
  return member.state == MemberState::kServing ||
         member.state == MemberState::kDraining;
}

// "A is suspect, B and 3 others are gone": at most one name for each state.
std::string Troubles(std::span<const MemberSummary> members) {
  std::string troubles;
  for (const MemberState state : {MemberState::kSuspect, MemberState::kGone}) {
    std::string_view first;
    int count = 0;
    for (const MemberSummary& member : members) {
      if (member.state == state && count++ == 0) first = member.name;
    }
    if (count == 0) continue;
    if (!troubles.empty()) troubles += ", ";
    troubles += count == 1 ? fmt::format("{} is {}", first, NameOf(state))
                           : fmt::format("{} and {} more are {}", first,
                                         count - 1, NameOf(state));
  }
  return troubles;
}

std::string WithTroubles(std::string sentence, const std::string& troubles) {
  return troubles.empty() ? sentence : sentence + ": " + troubles;
}

}  // namespace

int LeastCopies(const Placement& placement, const ModelExtent& extent) {
  int complete = 0;  // members that hold everything
  std::vector<const SliceSet*> partial;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    const Member& member = placement.member(slot);
    if (!IsInService(member)) continue;
    if (member.holdings == nullptr) {
      ++complete;
    } else {
      partial.push_back(member.holdings.get());
    }
  }
  if (partial.empty()) return complete;
  int least = static_cast<int>(partial.size());
  for (int layer = 0; layer < extent.num_layers && least > 0; ++layer) {
    for (int expert = 0; expert < extent.num_experts; ++expert) {
      const ExpertKey key = {extent.first_layer + layer, expert};
      for (int slice = 0; slice < extent.num_slices; ++slice) {
        const auto copies = std::count_if(
            partial.begin(), partial.end(),
            [&](const SliceSet* set) { return set->Contains(key, slice); });
        least = std::min(least, static_cast<int>(copies));
      }
    }
  }
  return complete + least;
}

Judgement JudgeCluster(std::span<const MemberSummary> members,
                       int copies_wanted, int copies_least) {
  const std::string troubles = Troubles(members);
  const auto in_service = std::count_if(
      members.begin(), members.end(), [](const MemberSummary& member) {
        return member.state == MemberState::kServing ||
               member.state == MemberState::kDraining;
      });
  if (in_service == 0) {
    return {v1::ClusterHealth::DOWN,
            WithTroubles("no node is in service", troubles)};
  }
  if (copies_least == 0) {
    return {v1::ClusterHealth::DOWN,
            WithTroubles("some experts are on no node in service", troubles)};
  }
  if (copies_least < copies_wanted) {
    return {v1::ClusterHealth::DEGRADED,
            WithTroubles(fmt::format("some experts have {} of {} copies",
                                     copies_least, copies_wanted),
                         troubles)};
  }
  if (!troubles.empty()) return {v1::ClusterHealth::DEGRADED, troubles};
  return {v1::ClusterHealth::HEALTHY,
          fmt::format("{} node{} in service", in_service,
                      in_service == 1 ? "" : "s")};
}

}  // namespace deltafin
