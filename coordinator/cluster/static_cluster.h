// coordinator/cluster/static_cluster.h
//
// A cluster whose members are named once and never change: a list of
// addresses, or a node in this process. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/cluster/cluster_view.h"

namespace deltafin {

class StaticCluster : public ClusterView {
 public:
  // All members serve with equal weight. `members` need name and channel.
  StaticCluster(const PlacementOptions& options, std::vector<Member> members);

  std::shared_ptr<const Placement> placement() const override {
    return placement_;
  }
  void StreamOpened(int, const v1::HandshakeReply&) override {}
  void MemberFailed(int, const absl::Status&) override {}
  void PartAnswered(int, const PartTiming&) override {}

 private:
  const std::shared_ptr<const Placement> placement_;
};

}  // namespace deltafin
