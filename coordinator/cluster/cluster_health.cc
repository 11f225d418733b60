#include "coordinator/cluster/cluster_health.h"

#include <algorithm>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

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

Judgement JudgeCluster(std::span<const MemberSummary> members,
                       const CopyState& copies) {
  const std::string troubles = Troubles(members);
  const CopyCounts& counts = copies.counts;
  const auto in_service = std::count_if(
      members.begin(), members.end(), [](const MemberSummary& member) {
        return member.state == MemberState::kServing ||
               member.state == MemberState::kDraining;
      });
  if (in_service == 0) {
    return {v1::ClusterHealth::DOWN,
            WithTroubles("no node is in service", troubles)};
  }
  if (counts.least == 0 && !copies.can_be_got) {
    return {v1::ClusterHealth::DOWN,
            WithTroubles(fmt::format("{} of {} slices of experts are on no "
                                     "node in service, and none can fetch them",
                                     counts.none, copies.num_pairs),
                         troubles)};
  }
  if (counts.least == 0) {
    return {v1::ClusterHealth::DEGRADED,
            WithTroubles(fmt::format("{} of {} slices of experts are on no "
                                     "node in service yet and are fetched "
                                     "where they are needed",
                                     counts.none, copies.num_pairs),
                         troubles)};
  }
  if (counts.least < copies.wanted) {
    return {v1::ClusterHealth::DEGRADED,
            WithTroubles(fmt::format("{} of {} slices of experts have fewer "
                                     "than {} copies, the rarest {}",
                                     counts.scarce, copies.num_pairs,
                                     copies.wanted, counts.least),
                         troubles)};
  }
  if (!troubles.empty()) return {v1::ClusterHealth::DEGRADED, troubles};
  return {v1::ClusterHealth::HEALTHY,
          fmt::format("{} node{} in service", in_service,
                      in_service == 1 ? "" : "s")};
}

}  // namespace deltafin
