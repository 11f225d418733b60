// coordinator/cluster/placement.h
//
// Who is in the cluster and who is meant to compute what: an immutable
// snapshot. It is locality, not truth: any member that holds a slice can
// compute it. Members are known by their slot, a small number that a node keeps
// for as long as the coordinator runs. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/expert_key.h"
#include "coordinator/cluster/cut_policy.h"
#include "coordinator/cluster/slice_set.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace deltafin {

enum class MemberState : uint8_t {
  kJoining,   // known, not asked for work yet
  kServing,   // has work
  kDraining,  // has work only where nobody else can do it
  kSuspect,   // silent: has work only where nobody else can do it
  kGone,      // has none
};

std::string_view NameOf(MemberState state);

enum class FetchReach : uint8_t {
  kNothing,
  kMembers,  // from members that hold them
  kAll,      // also what nobody holds: from a repository, the coordinator
};

struct Member {
  std::string id;    // of its data folder; empty in a slot that nobody has
  std::string name;  // for messages: "host:port", "in-process"
  std::shared_ptr<grpc::Channel> channel;  // null when gone
  MemberState state = MemberState::kGone;
  // Its speed, in any unit that all members share. 0: left out, used only where
  // nobody else can do it.
  double weight = 0;
  // What it can read without the network. Null: everything.
  std::shared_ptr<const SliceSet> holdings;
  // Where it gets slices that it does not hold.
  FetchReach fetches = FetchReach::kNothing;

  bool can_work() const {
    return state != MemberState::kGone && state != MemberState::kJoining;
  }
  // Meant to have work, not only where nobody else can do it.
  bool is_wanted() const {
    return state == MemberState::kServing && weight > 0;
  }
};

enum class CutKind : uint8_t { kProportional, kWholeExperts, kRandom };

std::string_view NameOf(CutKind cut);

// Copies of everything that may be asked for.
inline constexpr int kMaxCopies = 16;

struct PlacementOptions {
  CutKind cut = CutKind::kProportional;
  uint64_t seed = 0;   // of kRandom
  int num_slices = 0;  // of an expert
  int copies = 1;      // members that are meant to hold each slice
  friend bool operator==(const PlacementOptions&,
                         const PlacementOptions&) = default;
};

// What a cut follows from: placements with equal ones cut all experts alike.
struct PlacementCut {
  PlacementOptions options;
  std::vector<double> weights;  // by slot
  friend bool operator==(const PlacementCut&, const PlacementCut&) = default;
};

class Placement {
 public:
  // `members` by slot. The cut is over those that serve with weight > 0; if
  // there are none, over all that can work. Nobody: Cut gives no runs.
  Placement(uint64_t epoch, const PlacementOptions& options,
            std::vector<Member> members);

  uint64_t epoch() const { return epoch_; }
  const PlacementOptions& options() const { return options_; }
  int num_slots() const { return static_cast<int>(members_.size()); }
  const Member& member(int slot) const { return members_[slot]; }
  // Members that the cut is over.
  bool has_share(int slot) const { return weights_[slot] > 0; }
  PlacementCut cut() const { return {options_, weights_}; }
  // Its part of the cut, 0 to 1. 0 for slots that the placement does not know.
  double share(int slot) const;

  // Replaces *runs by the runs of `copy` (0: the home), covering every slice
  // once, ascending; NodeRun::node is a slot. Copy c of a run is on the c-th
  // member with a share after its home. Nothing where there are not more than
  // `copy` members with a share.
  void Cut(ExpertKey key, int copy, std::vector<NodeRun>* runs) const;

  // Can work and holds all of the run.
  bool Holds(int slot, ExpertKey key, SliceRun run) const;
  // Can work and, if it does not hold all of the run, can get it: slower by
  // far.
  bool Reaches(int slot, ExpertKey key, SliceRun run) const;

 private:
  const uint64_t epoch_;
  const PlacementOptions options_;
  const std::vector<Member> members_;
  std::vector<double> weights_;  // of the cut, by slot
  std::vector<int> next_;        // the member with a share after this one
  int num_sharing_ = 0;
  std::unique_ptr<CutPolicy> policy_;  // null: nobody can work
};

}  // namespace deltafin
