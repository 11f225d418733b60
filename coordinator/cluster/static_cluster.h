// coordinator/cluster/static_cluster.h
//
// A cluster whose members are named once and never change: a list of
// addresses, or a node in this process. Logs members that are lost and come
// back, once each time. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cluster/cluster_view.h"

namespace deltafin {

class StaticCluster : public ClusterView {
 public:
  // All members serve with equal weight. `members` need name and channel.
  StaticCluster(const PlacementOptions& options, std::vector<Member> members);

  std::shared_ptr<const Placement> placement() const override {
    return placement_;
  }
  void StreamOpened(int slot, const v1::HandshakeReply& identity) override;
  void MemberFailed(int slot, const absl::Status& why) override;
  void PartAnswered(int slot, const PartTiming& timing) override;

 private:
  enum class Health : uint8_t { kNew, kWorks, kLost };
  void SetWorks(int slot);

  const std::shared_ptr<const Placement> placement_;
  Mutex mutex_;
  std::vector<Health> health_ ABSL_GUARDED_BY(mutex_);  // by slot
};

}  // namespace deltafin
