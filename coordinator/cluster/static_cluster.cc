#include "coordinator/cluster/static_cluster.h"

#include <utility>

#include "common/base/log.h"

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
                                             AllServing(std::move(members)))),
      health_(placement_->num_slots()) {}

void StaticCluster::StreamOpened(int slot, const v1::HandshakeReply&) {
  SetWorks(slot);
}

void StaticCluster::PartAnswered(int slot, const PartTiming&) {
  SetWorks(slot);
}

void StaticCluster::SetWorks(int slot) {
  {
    MutexLock lock(mutex_);
    const Health before = std::exchange(health_[slot], Health::kWorks);
    if (before != Health::kLost) return;
  }
  spdlog::info("node {}: works again", placement_->member(slot).name);
}

// One that never worked is an error of the start, told there.
void StaticCluster::MemberFailed(int slot, const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (health_[slot] != Health::kWorks) return;
    health_[slot] = Health::kLost;
  }
  spdlog::warn("lost {}; others do its work meanwhile",
               std::string(why.message()));
}

}  // namespace deltafin
