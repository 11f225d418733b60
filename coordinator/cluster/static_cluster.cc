#include "coordinator/cluster/static_cluster.h"

#include <utility>

namespace deltafin {
namespace {

std::vector<Member> AllServing(std::vector<Member> members) {
  for (Member& member : members) {
    member.state = MemberState::kServing;
    member.weight = 1;
  }
  return members;
}

}  // namespace

StaticCluster::StaticCluster(const PlacementOptions& options,
                             std::vector<Member> members)
    : placement_(std::make_shared<Placement>(1, options,
                                             AllServing(std::move(members)))) {}

}  // namespace deltafin
