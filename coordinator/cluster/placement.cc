#include "coordinator/cluster/placement.h"

#include <numeric>
#include <utility>

namespace deltafin {
namespace {

std::vector<double> WeightsOfCut(const std::vector<Member>& members) {
  std::vector<double> weights;
  bool somebody = false;
  for (const Member& member : members) {
    const bool shares =
        member.state == MemberState::kServing && member.weight > 0;
    weights.push_back(shares ? member.weight : 0);
    somebody |= shares;
  }
  if (somebody) return weights;
  for (size_t slot = 0; slot < members.size(); ++slot) {
    weights[slot] = members[slot].can_work() ? 1 : 0;
  }
  return weights;
}

std::unique_ptr<CutPolicy> MakePolicy(const PlacementOptions& options,
                                      const std::vector<double>& weights) {
  switch (options.cut) {
    case CutKind::kWholeExperts:
      return NewWholeExperts(weights, options.num_slices);
    case CutKind::kRandom:
      return NewRandomCut(weights, options.num_slices, options.seed);
    case CutKind::kProportional:
      break;
  }
  return NewProportionalCut(weights, options.num_slices);
}

}  // namespace

std::string_view NameOf(MemberState state) {
  switch (state) {
    case MemberState::kJoining:
      return "joining";
    case MemberState::kServing:
      return "serving";
    case MemberState::kDraining:
      return "draining";
    case MemberState::kSuspect:
      return "suspect";
    case MemberState::kGone:
      return "gone";
  }
  return "";
}

std::string_view NameOf(CutKind cut) {
  switch (cut) {
    case CutKind::kProportional:
      return "proportional";
    case CutKind::kWholeExperts:
      return "whole experts";
    case CutKind::kRandom:
      return "random";
  }
  return "";
}

Placement::Placement(uint64_t epoch, const PlacementOptions& options,
                     std::vector<Member> members)
    : epoch_(epoch),
      options_(options),
      members_(std::move(members)),
      weights_(WeightsOfCut(members_)),
      next_(members_.size()) {
  for (const double weight : weights_) num_sharing_ += weight > 0;
  if (num_sharing_ == 0) return;
  policy_ = MakePolicy(options_, weights_);
  for (int slot = 0; slot < num_slots(); ++slot) {
    int next = (slot + 1) % num_slots();
    while (!has_share(next)) next = (next + 1) % num_slots();
    next_[slot] = next;
  }
}

double Placement::share(int slot) const {
  if (slot >= num_slots() || !has_share(slot)) return 0;
  return weights_[slot] /
         std::accumulate(weights_.begin(), weights_.end(), 0.0);
}

void Placement::Cut(ExpertKey key, int copy, std::vector<NodeRun>* runs) const {
  runs->clear();
  if (copy >= num_sharing_) return;
  policy_->Cut(key, runs);
  for (NodeRun& run : *runs) {
    for (int i = 0; i < copy; ++i) run.node = next_[run.node];
  }
}

bool Placement::Holds(int slot, ExpertKey key, SliceRun run) const {
  const Member& member = members_[slot];
  return member.can_work() &&
         (member.holdings == nullptr || member.holdings->ContainsAll(key, run));
}

bool Placement::Reaches(int slot, ExpertKey key, SliceRun run) const {
  const Member& member = members_[slot];
  if (!member.can_work()) return false;
  if (member.fetches == FetchReach::kAll) return true;
  for (int slice = run.first; slice < run.first + run.count; ++slice) {
    bool found = Holds(slot, key, {slice, 1});
    if (member.fetches == FetchReach::kMembers) {
      for (int other = 0; !found && other < num_slots(); ++other) {
        found = Holds(other, key, {slice, 1});
      }
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace deltafin
