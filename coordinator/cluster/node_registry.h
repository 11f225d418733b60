// coordinator/cluster/node_registry.h
//
// The members of a cluster and the placement over them: nodes that join and
// send heartbeats, those that the user named, and the one in this process.
// Thread-safe; no call blocks on the network.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/cluster_events.h"
#include "coordinator/cluster/cluster_health.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/cluster/copy_orders.h"
#include "coordinator/cluster/drain.h"
#include "coordinator/cluster/epoch_file.h"
#include "coordinator/cluster/handshake.h"
#include "coordinator/cluster/member_life.h"
#include "coordinator/cluster/member_table.h"
#include "proto/admin.pb.h"
#include "proto/cluster.pb.h"

namespace deltafin {

struct RegistryOptions {
  PlacementOptions placement;
  ModelExtent extent;
  HandshakeIdentity identity;  // what nodes must match
  std::string model;           // for health
  LifeLimits limits;
  // Nodes may join from this machine alone: the coordinator would call them in
  // plaintext.
  bool loopback_only = false;
  // The coordinator gives nodes slices of its own folder, and of where that was
  // installed from, whether a member is in this process or not.
  bool supplies_slices = false;
  // A member that is gone keeps its slot, and a line in the health table, for
  // this long.
  absl::Duration forget_after = absl::Minutes(10);
  // What a node is told to copy at most in a second; 0: as it likes.
  uint64_t copy_bytes_per_second = 0;
  // Nothing is copied for the sake of a member that is suspect or gone for
  // less: it may be back sooner than its slices would be elsewhere.
  absl::Duration rebalance_after = absl::Minutes(5);
  // Nothing is copied before, so that members of a coordinator before this one
  // can come back.
  absl::Duration copies_begin_after;
  // Ids of nodes that are out of service, and what keeps them when they change;
  // null: nothing. It is called while the registry waits.
  std::set<std::string> drained = {};
  std::function<void(const std::set<std::string>&)> keep_drained = nullptr;
};

// A member's stream ends, to ask it for more than its heartbeats tell.
struct ConnectedMember {
  std::string name;
  std::shared_ptr<grpc::Channel> channel;
  v1::HandshakeReply identity;  // empty before the engine's stream or its Join
};

// What a member has and lacks of what it is meant to have, as of the last Tick.
struct SliceBooks {
  int64_t meant = 0;
  int64_t missing = 0;
  uint64_t copy_orders = 0;  // given to it
};

class NodeRegistry : public ClusterView {
 public:
  // To "host:port". Connects nothing yet.
  using ChannelFactory =
      std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

  // `clock` must outlive this.
  NodeRegistry(RegistryOptions options, EpochFile epochs,
               ChannelFactory make_channel, const Clock& clock);

  // A member that has no heartbeats and is never forgotten: suspect when the
  // engine's stream to it fails, serving when it works. It may join as well.
  void AddNamed(const std::string& name,
                std::shared_ptr<grpc::Channel> channel);

  // What the ClusterService does. A node is joining until its first heartbeat.
  //
  // One data folder has one process, and an address one node: a Join supersedes
  // every other member with its home, its address or its id. Errors:
  // INVALID_ARGUMENT naming the field; FAILED_PRECONDITION with both sides'
  // values where model, wire or numerics version differ; ALREADY_EXISTS while
  // the id belongs to a member in service at another address from another
  // folder (a folder that was copied); RESOURCE_EXHAUSTED at kMaxMembers.
  absl::StatusOr<v1::JoinReply> Join(const v1::JoinRequest& request);
  // Errors: INVALID_ARGUMENT; NOT_FOUND: no member, or another process is.
  absl::StatusOr<v1::HeartbeatReply> Heartbeat(
      const v1::HeartbeatRequest& request);
  // Of a process that is no member: nothing.
  absl::Status Leave(const v1::LeaveRequest& request);
  // Of the placement at the last Tick. Errors as of Heartbeat.
  absl::StatusOr<v1::NextCopiesReply> NextCopies(
      const v1::NextCopiesRequest& request);

  // Who has slices that a member lacks. Errors: INVALID_ARGUMENT; NOT_FOUND as
  // Heartbeat.
  absl::StatusOr<v1::FindOwnersReply> FindOwners(
      const v1::FindOwnersRequest& request);

  // Takes a member out of service for new work. `node`: its id, an unambiguous
  // beginning of it, or its address. It stays out when it joins again, until
  // EndDrain. What it alone has is copied by others. Returns its slot. Errors:
  // those of FindNode; FAILED_PRECONDITION when it alone has some of the model
  // and nobody copies: it stays in service then.
  absl::StatusOr<int> BeginDrain(const std::string& node);
  // Back into service; also one that is not there now. Errors: of FindNode.
  absl::Status EndDrain(const std::string& node);
  // Of the member that BeginDrain gave the slot of.
  DrainFacts drain_facts(int slot) const;

  // What deltafin placement shows and plans. Errors: those of FindNode and
  // ReportPlacement; INVALID_ARGUMENT for more than kMaxCopies copies or where
  // no node would be left.
  absl::StatusOr<v1::PlacementReport> ReportPlacement(
      const v1::GetPlacementRequest& request) const;

  const ModelExtent& extent() const { return options_.extent; }

  // Notices who has been silent, and works out what is to be copied. Several
  // times in a heartbeat, by one thread.
  void Tick();

  std::shared_ptr<const Placement> placement() const override;
  void StreamOpened(int slot, const v1::HandshakeReply& identity) override;
  void MemberFailed(int slot, const absl::Status& why) override;
  void PartAnswered(int slot, const PartTiming& timing) override;
  absl::Duration RoundTrip(int slot) const override;  // of heartbeats

  // All members but those that left, by slot.
  v1::ClusterHealth health() const;
  // The verdict alone: cheap.
  Judgement judgement() const;
  // Those that serve or drain, by slot.
  std::vector<ConnectedMember> members_in_service() const;
  // Changes of state, oldest first, but for those of members that the user
  // named and that were not heard of yet.
  std::vector<ClusterEvent> events() const;

 private:
  absl::StatusOr<int> SlotFor(const v1::JoinRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Admit(const v1::JoinRequest& request,
             std::shared_ptr<const SliceSet> holdings,
             std::shared_ptr<grpc::Channel> channel, MemberRecord* record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Supersede(int slot, const v1::JoinRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemberRecord* FindProcess(const std::string& id, uint64_t incarnation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<MemberRecord*> RequireProcess(const std::string& id,
                                               uint64_t incarnation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<NodeName> NodeNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Brings states, weights and placement up to date with the facts.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SettleState(int slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteEvent(const MemberRecord& record, MemberState before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SettleWeights() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // As it is, or as the request thinks of it.
  absl::StatusOr<Placement> PlacementFor(const v1::GetPlacementRequest& request)
      const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanCopies();
  // Who shares the experts as far as copying goes: those away for a short time,
  // too, but not the slots in `without`.
  Placement CopyCut(const PlacementOptions& options,
                    const std::set<int>& without) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool KeepsShare(const MemberRecord& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<MemberWeight> Weigh(const std::vector<int>& slots) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<CopyPeer> Peers(int num_slots) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SliceBooks BooksOf(int slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepDrained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SomebodyCopies(int but_slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Judgement Judge() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const CopyCounts& Copies() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RegistryOptions options_;
  const ChannelFactory make_channel_;
  const Clock& clock_;
  const absl::Duration started_;
  mutable Mutex mutex_;
  EpochFile epochs_ ABSL_GUARDED_BY(mutex_);
  MemberTable table_ ABSL_GUARDED_BY(mutex_);
  ClusterEvents events_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Placement> placement_ ABSL_GUARDED_BY(mutex_);
  // Ids of nodes out of service, members or not.
  std::set<std::string> drained_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const CopyPlan> plan_ ABSL_GUARDED_BY(mutex_);  // null: none
  struct CopiesOfEpoch {
    uint64_t epoch = 0;
    CopyCounts copies;
  };
  mutable CopiesOfEpoch copies_ ABSL_GUARDED_BY(mutex_);  // counted last
};

}  // namespace deltafin
